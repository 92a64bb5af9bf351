// The activation quantiser with 256-bit vectors, for every x86 ISA from AVX2 on: it is memory bound.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "qnbit/quantize_row.h"

namespace onnxruntime_mlas::qnbit {
namespace {

inline uint32_t LargestMagnitudeBits(const float* a, size_t block_len) {
  // Compared as integers, magnitudes order as floats do and NaN is above infinity, where VMAXPS would lose it.
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i largest = _mm256_setzero_si256();
  for (size_t i = 0; i < block_len; i += 8) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + i));
    largest = _mm256_max_epi32(largest, _mm256_and_si256(bits, magnitude));
  }
  __m128i half = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
  half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4E));
  half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0xB1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(half));
}

// Rounds a[0, block_len) * r to int8 and returns the sum.
inline int32_t RoundBlock(const float* a, size_t block_len, float r, int8_t* q) {
  const __m256 factor = _mm256_set1_ps(r);
  __m256i sums = _mm256_setzero_si256();
  for (size_t i = 0; i < block_len; i += 16) {
    const __m256i low = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(a + i), factor));
    const __m256i high = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(a + i + 8), factor));
    sums = _mm256_add_epi32(sums, _mm256_add_epi32(low, high));
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xD8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q + i), bytes);
  }
  __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xB1));
  return _mm_cvtsi128_si32(half);
}

constexpr auto QuantizeRowX86 = QuantizeRow<LargestMagnitudeBits, RoundBlock>;

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
