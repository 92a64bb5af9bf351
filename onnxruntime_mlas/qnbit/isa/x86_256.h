// What the vocabularies of the 256-bit ISAs share: everything but the dot product. Meanings: isa/portable.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "qnbit/kernels.h"

namespace onnxruntime_mlas::qnbit {
namespace {

struct X86Vector256 {
  static constexpr size_t kLanes = 8;
  static constexpr bool kQuadsFromMemory = true;
  static constexpr unsigned kUnitsAtOnce = 1;
  static constexpr bool kShiftsBytes = false;
  using Codes = __m256i;
  using Acc = __m256i;
  using I32 = __m256i;
  using F32 = __m256;
  using Scalar = F32;
  using Activations = const int8_t*;

  static Codes LoadCodes(const std::byte* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
  template <size_t kOffset>
  static Codes LoadCodesAt(const std::byte* from) {
    return LoadCodes(from + kOffset);
  }
  static void StoreCodes(std::byte* to, Codes x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x); }
  template <int kBits>
  static Codes ShiftDown(Codes x) {
    return _mm256_srli_epi16(x, kBits);
  }
  static Codes Mask(Codes x, uint8_t mask) { return _mm256_and_si256(x, _mm256_set1_epi8(static_cast<char>(mask))); }
  // Codes and I32 are one type here.
  static Codes FlipTopBits(Codes x) { return _mm256_xor_si256(x, _mm256_set1_epi8(-128)); }
  template <unsigned kQuad>
  static Codes Quad(Activations a) {
    return _mm256_castps_si256(_mm256_broadcast_ss(Floats(a + kQuad * kQuadK)));
  }

  template <size_t kOffset>
  static Activations LoadActivations(const int8_t* a) {
    return a + kOffset;
  }
  static I32 LoadTerm(const ActivationBlock& block) { return BroadcastI32(block.term); }
  static F32 LoadScale(const ActivationBlock& block) { return BroadcastF32(block.scale); }

  static Acc ZeroAcc() { return _mm256_setzero_si256(); }
  static I32 BroadcastI32(const int32_t* from) { return _mm256_castps_si256(_mm256_broadcast_ss(Floats(from))); }
  static I32 LoadI32(const std::byte* from) { return LoadCodes(from); }
  static void StoreI32(std::byte* to, I32 x) { StoreCodes(to, x); }
  static I32 LoadBytes(const std::byte* from) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
  }
  static constexpr int32_t kSumBias = 0;
  static I32 StartSum() { return _mm256_setzero_si256(); }
  // Upper halves of x are 0, so the pair sum is the one product.
  static I32 StartSum(I32 x, I32 y) { return _mm256_madd_epi16(x, y); }
  static F32 SumToFloat(I32 x) { return ToFloat(x); }
  static I32 AddI32(I32 x, I32 y) { return _mm256_add_epi32(x, y); }
  static I32 SubI32(I32 x, I32 y) { return _mm256_sub_epi32(x, y); }
  template <unsigned kBits>
  static I32 ShiftLanesUp(I32 x) {
    return _mm256_slli_epi32(x, kBits);
  }
  template <unsigned kBits>
  static I32 ShiftLanes(I32 x) {
    return _mm256_srli_epi32(x, kBits);
  }
  static I32 ShiftLanesBy(I32 x, unsigned bits) {
    return _mm256_srl_epi32(x, _mm_cvtsi32_si128(static_cast<int>(bits)));
  }

  static F32 ZeroF32() { return _mm256_setzero_ps(); }
  static F32 BroadcastF32(const float* from) { return _mm256_broadcast_ss(from); }
  static Scalar LoadScalar(const float* from) { return BroadcastF32(from); }
  static F32 LoadF32(const std::byte* from) { return _mm256_loadu_ps(Floats(from)); }
  static void StoreF32(std::byte* to, F32 x) { _mm256_storeu_ps(reinterpret_cast<float*>(to), x); }
  static F32 LoadHalf(const std::byte* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static F32 LoadPartial(const float* from, size_t columns) {
    return columns >= kLanes ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, ColumnMask(columns));
  }
  static void StorePartial(float* to, F32 x, size_t columns) {
    if (columns >= kLanes) {
      _mm256_storeu_ps(to, x);
    } else {
      _mm256_maskstore_ps(to, ColumnMask(columns), x);
    }
  }
  static F32 ToFloat(I32 x) { return _mm256_cvtepi32_ps(x); }
  static F32 Add(F32 x, F32 y) { return _mm256_add_ps(x, y); }
  static F32 Sub(F32 x, F32 y) { return _mm256_sub_ps(x, y); }
  static F32 Mul(F32 x, F32 y) { return _mm256_mul_ps(x, y); }
  static F32 Fma(F32 x, F32 y, F32 z) { return _mm256_fmadd_ps(x, y, z); }
  static F32 Negate(F32 x) { return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f)); }

  template <unsigned kBit, unsigned kBits>
  static F32 CodePlusPower(I32 x) {
    const __m256i code = _mm256_and_si256(x, _mm256_set1_epi32(((1 << kBits) - 1) << kBit));
    return _mm256_castsi256_ps(_mm256_or_si256(code, _mm256_set1_epi32(static_cast<int>(150 - kBit) << 23)));
  }

 private:
  template <class T>
  static const float* Floats(const T* from) {
    return reinterpret_cast<const float*>(from);
  }
  static __m256i ColumnMask(size_t columns) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(columns)), lanes);
  }
};

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
