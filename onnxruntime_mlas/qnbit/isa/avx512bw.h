// AVX-512 without VNNI: as AVX2 (isa/avx2.h), twice as wide.
#pragma once

#include "qnbit/isa/x86_512.h"

namespace onnxruntime_mlas::qnbit {
namespace {

struct Avx512Bw : X86Vector512 {
  static constexpr unsigned kDotsInFlight = 1;
  static constexpr bool kInt32Dots = false;
  static constexpr int32_t kCodeOffset = 0;
  // Two planes of 2 bits from each of two copies: a unit costs one shift and four ANDs, and int16 sums stay possible.
  // Codes of 4 bits times 16 would saturate VPMADDUBSW.
  static constexpr InPlaceRule InPlace(unsigned bits, bool) {
    return bits == 2 ? InPlaceRule{2, {0, 0, 4, 4}, {0, 1, 0, 1}} : InPlaceRule{1, {0, 4}, {0, 0}};
  }
  static Acc Dot(Acc acc, Codes codes, Codes a) { return _mm512_add_epi16(acc, _mm512_maddubs_epi16(codes, a)); }
  template <int kBits>
  static Acc AddShifted(Acc low, Acc high) {
    return _mm512_add_epi16(low, _mm512_srai_epi16(high, kBits));
  }
  static I32 Widen(Acc acc) { return _mm512_madd_epi16(acc, _mm512_set1_epi16(1)); }
};

// As Avx2Bytes, but AVX-512 has no VPSIGNB: where a code is negative, A is subtracted from 0.
struct Avx512BwBytes : X86Vector512 {
  static constexpr unsigned kDotsInFlight = 1;
  static constexpr bool kInt32Dots = true;
  static constexpr int32_t kCodeOffset = 128;
  static constexpr InPlaceRule InPlace(unsigned, bool) { return {1, {}, {}}; }
  static Acc Dot(Acc acc, Codes codes, Codes a) {
    const __m512i signed_a = _mm512_mask_sub_epi8(a, _mm512_movepi8_mask(codes), _mm512_setzero_si512(), a);
    const __m512i pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(codes), signed_a);
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
};

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
