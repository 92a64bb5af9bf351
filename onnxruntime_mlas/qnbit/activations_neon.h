// What is done to activations, with NEON, for every arm64 ISA.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "qnbit/quantize_row.h"

namespace onnxruntime_mlas::qnbit {
namespace {

// Four neighbouring numbers of A, or of C, as float32.
struct Float32Vectors {
  using Element = float;
  static float32x4_t Load(const float* from) { return vld1q_f32(from); }
};
struct Float16Vectors {
  using Element = uint16_t;
  static float32x4_t Load(const uint16_t* from) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from))); }
  static uint16x4_t Round(float32x4_t x) { return vreinterpret_u16_f16(vcvt_f16_f32(x)); }
};
struct BFloat16Vectors {
  using Element = uint16_t;
  static float32x4_t Load(const uint16_t* from) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from), 16)); }
  // To the upper half of the bits, half to even; a NaN is kept one by its quiet bit.
  static uint16x4_t Round(float32x4_t x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7FFF)), odd);
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), rounded, quiet), 16);
  }
};

// Compared as integers, magnitudes order as floats do and NaN is above infinity.
template <class Vectors>
uint32_t LargestMagnitudeBits(const typename Vectors::Element* a, size_t part_len) {
  const uint32x4_t magnitude = vdupq_n_u32(0x7FFFFFFF);
  uint32x4_t largest[4] = {vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)};
  for (size_t i = 0; i < part_len; i += 16) {
    for (size_t v = 0; v < 4; ++v) {
      const uint32x4_t bits = vreinterpretq_u32_f32(Vectors::Load(a + i + 4 * v));
      largest[v] = vmaxq_u32(largest[v], vandq_u32(bits, magnitude));
    }
  }
  return vmaxvq_u32(vmaxq_u32(vmaxq_u32(largest[0], largest[1]), vmaxq_u32(largest[2], largest[3])));
}

template <class Vectors>
int32_t RoundPart(const typename Vectors::Element* a, size_t part_len, float r, int8_t* q) {
  int16x8_t sums = vdupq_n_s16(0);  // at most 2 * 16 * 127 a lane
  for (size_t i = 0; i < part_len; i += 16) {
    int16x4_t words[4];
    for (size_t v = 0; v < 4; ++v) {
      words[v] = vmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(Vectors::Load(a + i + 4 * v), r)));
    }
    const int8x16_t bytes =
        vcombine_s8(vmovn_s16(vcombine_s16(words[0], words[1])), vmovn_s16(vcombine_s16(words[2], words[3])));
    vst1q_s8(q + i, bytes);
    sums = vpadalq_s8(sums, bytes);
  }
  return vaddlvq_s16(sums);
}

template <class Vectors>
void Widen(const void* from, size_t count, float* to) {
  const auto* const elements = static_cast<const uint16_t*>(from);
  size_t i = 0;
  for (; i + 4 <= count; i += 4) vst1q_f32(to + i, Vectors::Load(elements + i));
  if (i == count) return;
  uint16_t tail[4] = {};
  float widened[4];
  __builtin_memcpy(tail, elements + i, (count - i) * sizeof(uint16_t));
  vst1q_f32(widened, Vectors::Load(tail));
  __builtin_memcpy(to + i, widened, (count - i) * sizeof(float));
}

template <class Vectors>
void Narrow(const float* from, size_t count, void* to) {
  auto* const elements = static_cast<uint16_t*>(to);
  size_t i = 0;
  for (; i + 4 <= count; i += 4) vst1_u16(elements + i, Vectors::Round(vld1q_f32(from + i)));
  if (i == count) return;
  float tail[4] = {};
  uint16_t narrowed[4];
  __builtin_memcpy(tail, from + i, (count - i) * sizeof(float));
  vst1_u16(narrowed, Vectors::Round(vld1q_f32(tail)));
  __builtin_memcpy(elements + i, narrowed, (count - i) * sizeof(uint16_t));
}

template <class Vectors>
constexpr auto QuantizeRowNeon =
    QuantizeRow<typename Vectors::Element, LargestMagnitudeBits<Vectors>, RoundPart<Vectors>>;

constexpr ActivationKernels kActivationsNeon = {
    .quantize_row = {QuantizeRowNeon<Float32Vectors>, QuantizeRowNeon<Float16Vectors>,
                     QuantizeRowNeon<BFloat16Vectors>},
    .widen = {nullptr, Widen<Float16Vectors>, Widen<BFloat16Vectors>},
    .narrow = {nullptr, Narrow<Float16Vectors>, Narrow<BFloat16Vectors>},
};

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
