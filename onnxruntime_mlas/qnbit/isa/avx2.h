// AVX2: VPMADDUBSW sums pairs of u8 x s8 products into int16. It saturates, but codes of 2 and 4 bits can't reach the
// bound: 2 * 3 * 127 = 762, 2 * 15 * 127 = 3810. Sums stay in int16 for many dots (dot_int8.h, MaxSegmentSteps) and
// are widened once.
#pragma once

#include "qnbit/isa/x86_256.h"

namespace onnxruntime_mlas::qnbit {
namespace {

struct Avx2 : X86Vector256 {
  static constexpr unsigned kDotsInFlight = 1;
  static constexpr bool kInt32Dots = false;
  static constexpr int32_t kCodeOffset = 0;
  // Two planes of 2 bits from each of two copies: a unit costs one shift and four ANDs, and int16 sums stay possible.
  // Codes of 4 bits times 16 would saturate VPMADDUBSW.
  static constexpr InPlaceRule InPlace(unsigned bits, bool) {
    return bits == 2 ? InPlaceRule{2, {0, 0, 4, 4}, {0, 1, 0, 1}} : InPlaceRule{1, {0, 4}, {0, 0}};
  }
  static Acc Dot(Acc acc, Codes codes, Codes a) { return _mm256_add_epi16(acc, _mm256_maddubs_epi16(codes, a)); }
  template <int kBits>
  static Acc AddShifted(Acc low, Acc high) {
    return _mm256_add_epi16(low, _mm256_srai_epi16(high, kBits));
  }
  static I32 Widen(Acc acc) { return _mm256_madd_epi16(acc, _mm256_set1_epi16(1)); }
};

// Codes of 8 bits are signed here, in [-128, 127], and A in [-127, 127]: the product of |code|, at most 128, and A with
// the code's sign stays within 2 * 128 * 127 = 32512 per pair. There is no room for a second pair.
struct Avx2Bytes : X86Vector256 {
  static constexpr unsigned kDotsInFlight = 1;
  static constexpr bool kInt32Dots = true;
  static constexpr int32_t kCodeOffset = 128;
  static constexpr InPlaceRule InPlace(unsigned, bool) { return {1, {}, {}}; }
  static Acc Dot(Acc acc, Codes codes, Codes a) {
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(a, codes));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
