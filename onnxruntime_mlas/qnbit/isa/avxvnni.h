// AVX-VNNI: VEX-encoded VPDPBUSD, u8 x s8 4-way dots into int32.
#pragma once

#include "qnbit/isa/x86_256.h"

namespace onnxruntime_mlas::qnbit {
namespace {

struct AvxVnni : X86Vector256 {
  static constexpr bool kInt32Dots = true;
  static constexpr int32_t kCodeOffset = 0;
  // Two dots a cycle, whose sums are ready after 5 cycles; more accumulators would leave too few of 16 registers.
  static constexpr unsigned kDotsInFlight = 8;
  // 2 bits as isa/avx2.h, in long blocks all planes in place; 4 bits in place, in long blocks in twice the
  // accumulators.
  static constexpr InPlaceRule InPlace(unsigned bits, bool long_block) {
    if (bits == 2 && long_block) return {4, {0, 0, 0, 0}, {0, 1, 2, 3}};
    if (bits == 2) return {2, {0, 0, 4, 4}, {0, 1, 0, 1}};
    return bits == 4 ? InPlaceRule{2, {0, 0}, {0, 1}, long_block} : InPlaceRule{1, {}, {}};
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
