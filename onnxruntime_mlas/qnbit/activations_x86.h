// What is done to activations, with 256-bit vectors, for every x86 ISA from AVX2 on: it is memory bound.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "qnbit/quantize_row.h"

namespace onnxruntime_mlas::qnbit {
namespace {

// Eight neighbouring numbers of A, or of C, as float32.
struct Float32Vectors {
  using Element = float;
  static __m256 Load(const float* from) { return _mm256_loadu_ps(from); }
};
struct Float16Vectors {
  using Element = uint16_t;
  static __m256 Load(const uint16_t* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static __m128i Round(__m256 x) { return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }
};
struct BFloat16Vectors {
  using Element = uint16_t;
  static __m256 Load(const uint16_t* from) {
    const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
  }
  // To the upper half of the bits, half to even; a NaN is kept one by its quiet bit.
  static __m128i Round(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
  }
};

template <class Vectors>
uint32_t LargestMagnitudeBits(const typename Vectors::Element* a, size_t part_len) {
  // Compared as integers, magnitudes order as floats do and NaN is above infinity, where VMAXPS would lose it.
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i largest = _mm256_setzero_si256();
  for (size_t i = 0; i < part_len; i += 8) {
    const __m256i bits = _mm256_castps_si256(Vectors::Load(a + i));
    largest = _mm256_max_epi32(largest, _mm256_and_si256(bits, magnitude));
  }
  __m128i half = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
  half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4E));
  half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0xB1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(half));
}

template <class Vectors>
int32_t RoundPart(const typename Vectors::Element* a, size_t part_len, float r, int8_t* q) {
  const __m256 factor = _mm256_set1_ps(r);
  __m256i sums = _mm256_setzero_si256();
  for (size_t i = 0; i < part_len; i += 16) {
    const __m256i low = _mm256_cvtps_epi32(_mm256_mul_ps(Vectors::Load(a + i), factor));
    const __m256i high = _mm256_cvtps_epi32(_mm256_mul_ps(Vectors::Load(a + i + 8), factor));
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

template <class Vectors>
void Widen(const void* from, size_t count, float* to) {
  const auto* const elements = static_cast<const uint16_t*>(from);
  size_t i = 0;
  for (; i + 8 <= count; i += 8) _mm256_storeu_ps(to + i, Vectors::Load(elements + i));
  if (i == count) return;
  uint16_t tail[8] = {};
  float widened[8];
  __builtin_memcpy(tail, elements + i, (count - i) * sizeof(uint16_t));
  _mm256_storeu_ps(widened, Vectors::Load(tail));
  __builtin_memcpy(to + i, widened, (count - i) * sizeof(float));
}

template <class Vectors>
void Narrow(const float* from, size_t count, void* to) {
  auto* const elements = static_cast<uint16_t*>(to);
  const auto store = [](uint16_t* target, __m256 x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), Vectors::Round(x));
  };
  size_t i = 0;
  for (; i + 8 <= count; i += 8) store(elements + i, _mm256_loadu_ps(from + i));
  if (i == count) return;
  float tail[8] = {};
  uint16_t narrowed[8];
  __builtin_memcpy(tail, from + i, (count - i) * sizeof(float));
  store(narrowed, _mm256_loadu_ps(tail));
  __builtin_memcpy(elements + i, narrowed, (count - i) * sizeof(uint16_t));
}

template <class Vectors>
constexpr auto QuantizeRowX86 =
    QuantizeRow<typename Vectors::Element, LargestMagnitudeBits<Vectors>, RoundPart<Vectors>>;

constexpr ActivationKernels kActivationsX86 = {
    .quantize_row = {QuantizeRowX86<Float32Vectors>, QuantizeRowX86<Float16Vectors>, QuantizeRowX86<BFloat16Vectors>},
    .widen = {nullptr, Widen<Float16Vectors>, Widen<BFloat16Vectors>},
    .narrow = {nullptr, Narrow<Float16Vectors>, Narrow<BFloat16Vectors>},
};

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
