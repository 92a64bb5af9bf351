// The activation quantiser over an ISA's two vector loops: the largest magnitude of a part, as the bits of a float, and
// rounding part_len numbers times r to int8, which returns the sum. Results are the same to the bit everywhere. Per
// block: r = fp32(127 / amax), q = round-half-even(fp32(a * r)), scale = fp32(amax / 127).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "qnbit/kernels.h"

namespace onnxruntime_mlas::qnbit {
namespace {

constexpr uint32_t kInfinityBits = 0x7F800000;

template <class Element, uint32_t (*kLargestMagnitudeBits)(const Element* a, size_t part_len),
          int32_t (*kRound)(const Element* a, size_t part_len, float r, int8_t* q)>
bool QuantizeRow(const QuantizeArgs& t) {
  const auto* const row = static_cast<const Element*>(t.a);
  const size_t block_parts = t.block_len / t.part_len;
  const size_t row_parts = t.k / t.part_len + (t.k % t.part_len != 0);
  Element tail[kMaxPartLen];
  const auto part_at = [&](size_t part) -> const Element* {
    const Element* const from = row + part * t.part_len;
    const size_t valid = t.k - part * t.part_len;
    if (valid >= t.part_len) return from;
    for (size_t i = 0; i < t.part_len; ++i) tail[i] = i < valid ? from[i] : Element{0};
    return tail;
  };
  const size_t end = t.first + t.parts;
  size_t out = 0;
  for (size_t block = t.first / block_parts * block_parts; block < end; block += block_parts) {
    const size_t block_end = std::min(block + block_parts, row_parts);
    uint32_t bits = 0;
    for (size_t part = block; part < block_end; ++part) {
      bits = std::max(bits, kLargestMagnitudeBits(part_at(part), t.part_len));
    }
    if (bits >= kInfinityBits) return false;
    float amax;
    __builtin_memcpy(&amax, &bits, sizeof(amax));
    const float r = amax == 0.0f ? 0.0f : 127.0f / amax;
    if (r > __FLT_MAX__) return false;
    for (size_t part = std::max(block, t.first); part < std::min(block_end, end); ++part, ++out) {
      t.scales[out] = amax / 127.0f;
      t.sums[out] = kRound(part_at(part), t.part_len, r, t.q + out * t.part_len);
    }
  }
  return true;
}

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
