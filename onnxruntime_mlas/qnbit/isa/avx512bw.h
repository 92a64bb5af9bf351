// AVX-512 without VNNI: as AVX2 (isa/avx2.h), twice as wide.
#pragma once

#include "qnbit/isa/x86_512.h"

namespace onnxruntime_mlas::qnbit {
namespace {

struct Avx512Bw : X86Vector512 {
  static constexpr bool kInt32Dots = false;
  static Acc Dot(Acc acc, Codes codes, Codes a) { return _mm512_add_epi16(acc, _mm512_maddubs_epi16(codes, a)); }
  template <int kBits>
  static Acc AddShifted(Acc low, Acc high) {
    return _mm512_add_epi16(low, _mm512_srai_epi16(high, kBits));
  }
  static I32 Widen(Acc acc) { return _mm512_madd_epi16(acc, _mm512_set1_epi16(1)); }
};

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
