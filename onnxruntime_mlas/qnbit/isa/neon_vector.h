// What the vocabularies of the NEON ISAs share: everything but the dot product. Meanings: isa/portable.h.
//
// Vector operations bound these kernels, on two pipes (Neoverse N) or four (Neoverse V, Oryon). Loads go to pipes of
// their own, but LD1R takes a vector operation too, so what is constant for a row and block is stored once per lane
// (ActivationBlock) and loaded whole.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "qnbit/kernels.h"

namespace onnxruntime_mlas::qnbit {
namespace {

// Loads of weights, activations and what belongs to them, none of which changes while a kernel runs: so the assembly
// names no memory operand, for which clang would keep an address of its own.
//
// LDUR is one micro-operation where LDR, LDP and LD1 take more per vector on Neoverse N1 and V2, which these loops
// fill.
template <int kOffset>
inline uint8x16_t LoadUnscaled(const void* from) {
  static_assert(-256 <= kOffset && kOffset < 256);
  uint8x16_t loaded;
  __asm__("ldur %q0, [%1, %2]" : "=w"(loaded) : "r"(from), "i"(kOffset));
  return loaded;
}

// A load of its own wherever it is written: compilers would load once and copy, and a copy is a vector operation.
inline int32x4_t LoadApart(const int32_t* from) {
  int32x4_t loaded;
  __asm__ volatile("ldur %q0, [%1]" : "=w"(loaded) : "r"(from));
  return loaded;
}

alignas(16) constexpr int32_t kZeroWords[4] = {};
alignas(16) constexpr int32_t kSumBiasWords[4] = {0x4B400000, 0x4B400000, 0x4B400000, 0x4B400000};

struct NeonVector {
  static constexpr size_t kLanes = 4;
  static constexpr bool kQuadsFromMemory = false;
  static constexpr unsigned kUnitsAtOnce = 4;
  static constexpr unsigned kDotsInFlight = 1;
  static constexpr bool kShiftsBytes = true;
  using Codes = uint8x16_t;
  using Activations = int8x16_t;
  using I32 = int32x4_t;
  using F32 = float32x4_t;
  // One number of A in lane 0, for multiply-adds by element.
  struct Scalar {
    float32x4_t vector;
  };

  static Codes LoadCodes(const std::byte* from) { return vld1q_u8(reinterpret_cast<const uint8_t*>(from)); }
  template <size_t kOffset>
  static Codes LoadCodesAt(const std::byte* from) {
    return LoadUnscaled<kOffset>(from);
  }
  static void StoreCodes(std::byte* to, Codes x) { vst1q_u8(reinterpret_cast<uint8_t*>(to), x); }
  template <int kBits>
  static Codes ShiftDown(Codes x) {
    return vshrq_n_u8(x, kBits);
  }
  static Codes Mask(Codes x, uint8_t mask) { return vandq_u8(x, vdupq_n_u8(mask)); }
  static Codes FlipTopBits(Codes x) { return veorq_u8(x, vdupq_n_u8(0x80)); }
  static I32 FlipTopBits(I32 x) { return vreinterpretq_s32_u8(FlipTopBits(vreinterpretq_u8_s32(x))); }
  template <size_t kOffset>
  static Activations LoadActivations(const int8_t* a) {
    return vreinterpretq_s8_u8(LoadUnscaled<kOffset>(a));
  }

  static I32 LoadTerm(const ActivationBlock& block) { return LoadApart(block.term); }
  static F32 LoadScale(const ActivationBlock& block) { return vld1q_f32(block.scale); }

  static I32 LoadI32(const std::byte* from) { return vld1q_s32(reinterpret_cast<const int32_t*>(from)); }
  static void StoreI32(std::byte* to, I32 x) { vst1q_s32(reinterpret_cast<int32_t*>(to), x); }
  static I32 LoadBytes(const std::byte* from) {
    uint32_t bytes;
    __builtin_memcpy(&bytes, from, sizeof(bytes));
    const uint16x8_t words = vmovl_u8(vreinterpret_u8_u32(vset_lane_u32(bytes, vdup_n_u32(0), 0)));
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(words)));
  }
  // The bits of 1.5 * 2^23: plus a sum below 2^22 in magnitude they are the bits of 1.5 * 2^23 + sum, exactly, so one
  // subtraction converts it. SCVTF takes two operations of one pipe on Neoverse N1 to V3 (Arm's optimisation guides).
  static constexpr int32_t kSumBias = 0x4B400000;
  static I32 StartSum() { return LoadApart(kSumBiasWords); }
  static I32 StartSum(I32 x, I32 y) { return vmlaq_s32(vdupq_n_s32(kSumBias), x, y); }
  static F32 SumToFloat(I32 x) { return vsubq_f32(vreinterpretq_f32_s32(x), vdupq_n_f32(12582912.0f)); }
  static I32 AddI32(I32 x, I32 y) { return vaddq_s32(x, y); }
  static I32 SubI32(I32 x, I32 y) { return vsubq_s32(x, y); }
  template <unsigned kBits>
  static I32 ShiftLanesUp(I32 x) {
    return vshlq_n_s32(x, kBits);
  }
  template <unsigned kBits>
  static I32 ShiftLanes(I32 x) {
    return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x), kBits));
  }
  static I32 ShiftLanesBy(I32 x, unsigned bits) {
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(x), vdupq_n_s32(-static_cast<int>(bits))));
  }

  static F32 ZeroF32() { return vdupq_n_f32(0.0f); }
  static F32 BroadcastF32(const float* from) { return vld1q_dup_f32(from); }
  static Scalar LoadScalar(const float* from) {
    Scalar scalar;
    __asm__("ldr %s0, %1" : "=w"(scalar.vector) : "m"(*from));
    return scalar;
  }
  static F32 LoadF32(const std::byte* from) { return vld1q_f32(reinterpret_cast<const float*>(from)); }
  static void StoreF32(std::byte* to, F32 x) { vst1q_f32(reinterpret_cast<float*>(to), x); }
  static F32 LoadHalf(const std::byte* from) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const uint16_t*>(from))));
  }
  static F32 LoadPartial(const float* from, size_t columns) {
    if (columns >= kLanes) return vld1q_f32(from);
    F32 result = vdupq_n_f32(0.0f);
    if (columns > 0) result = vsetq_lane_f32(from[0], result, 0);
    if (columns > 1) result = vsetq_lane_f32(from[1], result, 1);
    if (columns > 2) result = vsetq_lane_f32(from[2], result, 2);
    return result;
  }
  static void StorePartial(float* to, F32 x, size_t columns) {
    if (columns >= kLanes) return vst1q_f32(to, x);
    if (columns > 0) to[0] = vgetq_lane_f32(x, 0);
    if (columns > 1) to[1] = vgetq_lane_f32(x, 1);
    if (columns > 2) to[2] = vgetq_lane_f32(x, 2);
  }
  static F32 ToFloat(I32 x) { return vcvtq_f32_s32(x); }
  static F32 Add(F32 x, F32 y) { return vaddq_f32(x, y); }
  static F32 Sub(F32 x, F32 y) { return vsubq_f32(x, y); }
  static F32 Mul(F32 x, F32 y) { return vmulq_f32(x, y); }
  static F32 Fma(F32 x, F32 y, F32 z) { return vfmaq_f32(z, x, y); }
  static F32 Fma(Scalar x, F32 y, F32 z) { return vfmaq_laneq_f32(z, y, x.vector, 0); }
  static F32 Negate(F32 x) { return vnegq_f32(x); }

  template <unsigned kBit, unsigned kBits>
  static F32 CodePlusPower(I32 x) {
    const int32x4_t code = vandq_s32(x, vdupq_n_s32(((1 << kBits) - 1) << kBit));
    return vreinterpretq_f32_s32(vorrq_s32(code, vdupq_n_s32(static_cast<int>(150 - kBit) << 23)));
  }
};

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
