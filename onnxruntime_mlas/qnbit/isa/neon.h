// ARMv8.0 NEON, which has no dot product: products of bytes are added up in int16, two accumulators of 2 columns x 4 k
// for a vector of 4 columns. They overflow no sooner than VPMADDUBSW's (dot_int8.h, MaxSegmentSteps): a lane of those
// adds two products per dot, and here two lanes are added when widened.
#pragma once

#include "qnbit/isa/neon_vector.h"

namespace onnxruntime_mlas::qnbit {
namespace {

struct Neon : NeonVector {
  static constexpr bool kInt32Dots = false;
  static constexpr int32_t kCodeOffset = 0;
  // Two sets at 2 bits: codes times 16 would leave room for few products.
  static constexpr InPlaceRule InPlace(unsigned bits, bool) {
    return bits == 2 ? InPlaceRule{2, {0, 0, 4, 6}, {0, 1, 0, 0}} : InPlaceRule{1, {0, 4}, {0, 0}};
  }
  struct Acc {
    int16x8_t low, high;  // columns 0 and 1, 2 and 3
  };

  template <unsigned kQuad>
  static int8x16_t Quad(Activations a) {
    return vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(a), kQuad));
  }
  static Acc ZeroAcc() { return {vdupq_n_s16(0), vdupq_n_s16(0)}; }
  static Acc Dot(Acc acc, Codes codes, int8x16_t a) {
    const int8x16_t b = vreinterpretq_s8_u8(codes);
    return {vmlal_s8(acc.low, vget_low_s8(b), vget_low_s8(a)), vmlal_high_s8(acc.high, b, a)};
  }
  template <int kBits>
  static Acc AddShifted(Acc low, Acc high) {
    return {vsraq_n_s16(low.low, high.low, kBits), vsraq_n_s16(low.high, high.high, kBits)};
  }
  static I32 Widen(Acc acc) { return vpaddlq_s16(vpaddq_s16(acc.low, acc.high)); }
};

// Codes of 8 bits are signed: two products of them fill int16, which are widened at once.
struct NeonBytes : NeonVector {
  static constexpr bool kInt32Dots = true;
  static constexpr int32_t kCodeOffset = 128;
  static constexpr InPlaceRule InPlace(unsigned, bool) { return {1, {}, {}}; }
  using Acc = int32x4_t;

  template <unsigned kQuad>
  static int8x16_t Quad(Activations a) {
    return Neon::Quad<kQuad>(a);
  }
  static Acc ZeroAcc() { return vdupq_n_s32(0); }
  static Acc Dot(Acc acc, Codes codes, int8x16_t a) {
    const int8x16_t b = vreinterpretq_s8_u8(codes);
    const int16x8_t low = vmull_s8(vget_low_s8(b), vget_low_s8(a)), high = vmull_high_s8(b, a);
    return vpadalq_s16(acc, vpaddq_s16(low, high));
  }
};

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
