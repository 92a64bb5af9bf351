// AVX-512 VNNI: VPDPBUSD, u8 x s8 4-way dots into int32. A's quad is the instruction's 32-bit embedded broadcast.
#pragma once

#include "qnbit/isa/x86_512.h"

namespace onnxruntime_mlas::qnbit {
namespace {

struct Avx512Vnni : X86Vector512 {
  static constexpr bool kInt32Dots = true;
  static constexpr int32_t kCodeOffset = 0;
  // Planes of 2 bits in two sets, as isa/avx2.h; 4 bits in place, times 1 and 16.
  static constexpr InPlaceRule InPlace(unsigned bits) {
    if (bits == 2) return {2, {0, 0, 4, 4}, {0, 1, 0, 1}};
    return bits == 4 ? InPlaceRule{2, {0, 0}, {0, 1}} : InPlaceRule{1, {}, {}};
  }

  struct QuadInMemory {
    const int8_t* bytes;
  };
  template <unsigned kQuad>
  static QuadInMemory Quad(Activations a) {
    return {a + kQuad * kQuadK};
  }

  // Written as assembly because GCC 12 neither folds the broadcast into the intrinsic nor keeps the accumulator in one
  // register: it copies it before and after every dot.
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
