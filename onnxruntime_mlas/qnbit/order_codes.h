// The step between the operator's order of codes and a unit's (layout.h), for one column: both keep the codes of 32
// bits together, k and k = 4p + j each from bit 0 up.
//
//   operator   k at bits [bits * k, bits * (k + 1))
//   unit       k = 4p + j at bits [8j + bits * p, 8j + bits * (p + 1)), 8-bit codes less 128
//
// Done by rounds of swapping (delta swaps; Knuth, TAOCP 7.1.3). At 2 bits both orders are a 4 x 4 square of codes, one
// transposed: single codes across the diagonal of each 2 x 2 square, then the two off-diagonal 2 x 2 squares. At 4 bits
// the lower and upper four codes are shuffled together: the middle two bytes, then the middle two codes of each half.
#pragma once

#include <cstdint>

namespace onnxruntime_mlas::qnbit {

// Swaps the fields of `lower` with those that stand `by` bits above.
inline uint32_t SwapFields(uint32_t word, uint32_t lower, int by) {
  const uint32_t swap = (word ^ (word >> by)) & lower;
  return word ^ swap ^ (swap << by);
}

inline uint32_t TransposeCodes2Bit(uint32_t word) {
  return SwapFields(SwapFields(word, 0x00CC00CCu, 6), 0x0000F0F0u, 12);
}

inline uint32_t UnitOrder(uint32_t word, uint32_t bits) {
  if (bits == 2) return TransposeCodes2Bit(word);
  if (bits == 4) return SwapFields(SwapFields(word, 0x0000FF00u, 8), 0x00F000F0u, 4);
  return word ^ 0x80808080u;
}

inline uint32_t OperatorOrder(uint32_t word, uint32_t bits) {
  if (bits == 2) return TransposeCodes2Bit(word);
  if (bits == 4) return SwapFields(SwapFields(word, 0x00F000F0u, 4), 0x0000FF00u, 8);
  return word ^ 0x80808080u;
}

}  // namespace onnxruntime_mlas::qnbit
