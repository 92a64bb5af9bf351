// The activation quantiser over an ISA's two vector loops: the largest magnitude of a block, as bits, and rounding
// a[0, block_len) * r to int8, which returns the sum. Results are the same to the bit everywhere. Per block:
// r = fp32(127 / amax), q = round-half-even(fp32(a * r)), scale = fp32(amax / 127).
#pragma once

#include <cstddef>
#include <cstdint>

#include "onnxruntime_mlas/qnbit.h"

namespace onnxruntime_mlas::qnbit {
namespace {

constexpr uint32_t kInfinityBits = 0x7F800000;

template <uint32_t (*kLargestMagnitudeBits)(const float* a, size_t block_len),
          int32_t (*kRoundBlock)(const float* a, size_t block_len, float r, int8_t* q)>
bool QuantizeRow(const float* a, size_t k, size_t block_len, size_t blocks, int8_t* q, float* scales, int32_t* sums) {
  float tail[kMaxBlockLen];
  for (size_t block = 0; block < blocks; ++block, a += block_len, q += block_len) {
    const size_t valid = k - block * block_len;
    if (valid < block_len) {
      for (size_t i = 0; i < block_len; ++i) tail[i] = i < valid ? a[i] : 0.0f;
      a = tail;
    }
    const uint32_t bits = kLargestMagnitudeBits(a, block_len);
    if (bits >= kInfinityBits) return false;
    float amax;
    __builtin_memcpy(&amax, &bits, sizeof(amax));
    const float r = amax == 0.0f ? 0.0f : 127.0f / amax;
    if (r > __FLT_MAX__) return false;
    scales[block] = amax / 127.0f;
    sums[block] = kRoundBlock(a, block_len, r, q);
  }
  return true;
}

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
