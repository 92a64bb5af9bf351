// DotProd (ARMv8.2): SDOT by element, 4 columns x 4 k of codes against one of the four quads of 16 k of A.
#pragma once

#include "qnbit/isa/neon_vector.h"

namespace onnxruntime_mlas::qnbit {
namespace {

struct NeonDotProd : NeonVector {
  static constexpr bool kInt32Dots = true;
  static constexpr int32_t kCodeOffset = 0;
  // At 2 bits, planes 0 to 2 in place; the top one would read as negative, and is right after one shift. So a unit
  // costs four operations and a block two shift-and-adds (SSRA). At 4 bits a unit costs two either way.
  static constexpr InPlaceRule InPlace(unsigned bits, bool) {
    return bits == 2 ? InPlaceRule{3, {0, 0, 0, 6}, {0, 1, 2, 0}} : InPlaceRule{1, {0, 4}, {0, 0}};
  }
  using Acc = int32x4_t;
  template <unsigned kQuad>
  struct Element {
    int8x16_t vector;
  };

  template <unsigned kQuad>
  static Element<kQuad> Quad(Activations a) {
    return {a};
  }
  static Acc ZeroAcc() { return LoadApart(kZeroWords); }
  template <unsigned kQuad>
  static Acc Dot(Acc acc, Codes codes, Element<kQuad> a) {
    return vdotq_laneq_s32(acc, vreinterpretq_s8_u8(codes), a.vector, kQuad);
  }
  template <int kBits>
  static Acc AddShifted(Acc low, Acc high) {
    // Compilers take the intrinsic apart and add up in another order, which costs an operation.
    __asm__("ssra %0.4s, %1.4s, %2" : "+w"(low) : "w"(high), "i"(kBits));
    return low;
  }
};

// SDOT takes signed codes: 8 bits as they are packed.
struct NeonDotProdBytes : NeonDotProd {
  static constexpr int32_t kCodeOffset = 128;
  static constexpr InPlaceRule InPlace(unsigned, bool) { return {1, {}, {}}; }
};

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
