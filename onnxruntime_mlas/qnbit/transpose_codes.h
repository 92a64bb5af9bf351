// The step between the operator's order of codes and a unit's, for one column and 16 k at 2 bits: both hold a 4 x 4
// square of codes in 32 bits, one transposed.
//
//   operator   k = 4i + l at bits 8i + 2l
//   unit       k = 4p + j at bits 8j + 2p
//
// Transposing is its own inverse. Two rounds of swapping (delta swaps; Knuth, TAOCP 7.1.3): single codes across the
// diagonal of each 2 x 2 square, then the two off-diagonal 2 x 2 squares.
#pragma once

#include <cstdint>

namespace onnxruntime_mlas::qnbit {

inline uint32_t TransposeCodes2Bit(uint32_t word) {
  uint32_t swap = (word ^ (word >> 6)) & 0x00CC00CCu;
  word ^= swap ^ (swap << 6);
  swap = (word ^ (word >> 12)) & 0x0000F0F0u;
  return word ^ swap ^ (swap << 12);
}

}  // namespace onnxruntime_mlas::qnbit
