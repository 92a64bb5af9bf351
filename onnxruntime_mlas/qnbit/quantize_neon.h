// The activation quantiser with NEON, for every arm64 ISA.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "qnbit/quantize_row.h"

namespace onnxruntime_mlas::qnbit {
namespace {

// Compared as integers, magnitudes order as floats do and NaN is above infinity.
inline uint32_t LargestMagnitudeBits(const float* a, size_t block_len) {
  const uint32x4_t magnitude = vdupq_n_u32(0x7FFFFFFF);
  uint32x4_t largest[4] = {vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)};
  for (size_t i = 0; i < block_len; i += 16) {
    for (size_t v = 0; v < 4; ++v) {
      const uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(a + i + 4 * v));
      largest[v] = vmaxq_u32(largest[v], vandq_u32(bits, magnitude));
    }
  }
  return vmaxvq_u32(vmaxq_u32(vmaxq_u32(largest[0], largest[1]), vmaxq_u32(largest[2], largest[3])));
}

// Rounds a[0, block_len) * r to int8 and returns the sum.
inline int32_t RoundBlock(const float* a, size_t block_len, float r, int8_t* q) {
  int16x8_t sums = vdupq_n_s16(0);  // at most 2 * 16 * 127 a lane
  for (size_t i = 0; i < block_len; i += 16) {
    int16x4_t words[4];
    for (size_t v = 0; v < 4; ++v) {
      words[v] = vmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(a + i + 4 * v), r)));
    }
    const int8x16_t bytes =
        vcombine_s8(vmovn_s16(vcombine_s16(words[0], words[1])), vmovn_s16(vcombine_s16(words[2], words[3])));
    vst1q_s8(q + i, bytes);
    sums = vpadalq_s8(sums, bytes);
  }
  return vaddlvq_s16(sums);
}

constexpr auto QuantizeRowNeon = QuantizeRow<LargestMagnitudeBits, RoundBlock>;

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
