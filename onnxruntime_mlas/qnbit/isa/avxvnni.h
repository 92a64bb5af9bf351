// AVX-VNNI: VEX-encoded VPDPBUSD, u8 x s8 4-way dots into int32.
#pragma once

#include "qnbit/isa/x86_256.h"

namespace onnxruntime_mlas::qnbit {
namespace {

struct AvxVnni : X86Vector256 {
  static constexpr bool kInt32Dots = true;
  static constexpr int32_t kCodeOffset = 0;
  // Planes of 2 bits in two sets, as isa/avx2.h; 4 bits in place, times 1 and 16.
  static constexpr InPlaceRule InPlace(unsigned bits) {
    if (bits == 2) return {2, {0, 0, 4, 4}, {0, 1, 0, 1}};
    return bits == 4 ? InPlaceRule{2, {0, 0}, {0, 1}} : InPlaceRule{1, {}, {}};
  }
  // Written as assembly because GCC 12 copies the intrinsic's accumulator before and after every dot.
  static Acc Dot(Acc acc, Codes codes, Codes a) {
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(codes), "x"(a));
    return acc;
  }
  template <int kBits>
  static Acc AddShifted(Acc low, Acc high) {
    return _mm256_add_epi32(low, _mm256_srai_epi32(high, kBits));
  }
};

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
