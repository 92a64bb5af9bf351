// AVX-512 VNNI: VPDPBUSD, u8 x s8 4-way dots into int32. A's quad is the instruction's 32-bit embedded broadcast.
#pragma once

#include "qnbit/isa/x86_512.h"

namespace onnxruntime_mlas::qnbit {
namespace {

struct Avx512Vnni : X86Vector512 {
  static constexpr bool kInt32Dots = true;
  static constexpr int32_t kCodeOffset = 0;
  // One dot a cycle, whose sum is ready after 4 (Zen 4) or 5 (Intel) cycles.
  static constexpr unsigned kDotsInFlight = 4;
  // 2 bits as isa/avx2.h, in long blocks all planes in place; 4 bits in place.
  static constexpr InPlaceRule InPlace(unsigned bits, bool long_block) {
    if (bits == 2 && long_block) return {4, {0, 0, 0, 0}, {0, 1, 2, 3}};
    if (bits == 2) return {2, {0, 0, 4, 4}, {0, 1, 0, 1}};
    return bits == 4 ? InPlaceRule{2, {0, 0}, {0, 1}} : InPlaceRule{1, {}, {}};
  }

  struct QuadInMemory {
    const int8_t* bytes;
  };
  // A load of a vector a cycle, broadcasts included, is as many as there are dots (Zen 4): several vectors of columns
  // share one broadcast.
  template <unsigned kQuad, unsigned kVecs>
  static auto QuadOf(Activations a) {
    if constexpr (kVecs == 1) {
      return QuadInMemory{a + kQuad * kQuadK};
    } else {
      return Quad<kQuad>(a);
    }
  }

  // Written as assembly because GCC 12 neither folds the broadcast into the intrinsic nor keeps the accumulator in one
  // register: it copies it before and after every dot.
  static Acc Dot(Acc acc, Codes codes, Codes a) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(codes), "v"(a));
    return acc;
  }
  static Acc Dot(Acc acc, Codes codes, QuadInMemory a) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(codes), "m"(*reinterpret_cast<const Bytes4*>(a.bytes)));
    return acc;
  }
  template <int kBits>
  static Acc AddShifted(Acc low, Acc high) {
    return _mm512_add_epi32(low, _mm512_srai_epi32(high, kBits));
  }

 private:
  struct Bytes4 {
    int8_t bytes[4];
  };
};

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
