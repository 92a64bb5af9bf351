// AVX2: VPMADDUBSW sums pairs of u8 x s8 products into int16. It saturates, but codes of 2 bits can't reach the bound:
// 2 * 3 * 127 = 762. Sums stay in int16 for many dots (tile_int8.h, MaxSegmentUnits) and are widened once.
#pragma once

#include "qnbit/isa/x86_256.h"

namespace onnxruntime_mlas::qnbit {
namespace {

struct Avx2 : X86Vector256 {
  static constexpr bool kInt32Dots = false;
  static Acc Dot(Acc acc, Codes codes, Codes a) { return _mm256_add_epi16(acc, _mm256_maddubs_epi16(codes, a)); }
  template <int kBits>
  static Acc AddShifted(Acc low, Acc high) {
    return _mm256_add_epi16(low, _mm256_srai_epi16(high, kBits));
  }
  static I32 Widen(Acc acc) { return _mm256_madd_epi16(acc, _mm256_set1_epi16(1)); }
};

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
