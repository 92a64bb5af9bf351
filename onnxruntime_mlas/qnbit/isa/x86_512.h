// What the vocabularies of the 512-bit ISAs share: everything but the dot product. Meanings: isa/portable.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "qnbit/kernels.h"

namespace onnxruntime_mlas::qnbit {
namespace {

struct X86Vector512 {
  static constexpr size_t kLanes = 16;
  static constexpr bool kQuadsFromMemory = true;
  static constexpr unsigned kUnitsAtOnce = 1;
  static constexpr bool kShiftsBytes = false;
  using Codes = __m512i;
  using Acc = __m512i;
  using I32 = __m512i;
  using F32 = __m512;
  using Scalar = F32;
  using Activations = const int8_t*;

  static Codes LoadCodes(const std::byte* from) { return _mm512_loadu_si512(from); }
  // Loaded once: compilers would fold the load into the mask of every plane, and loads bound these kernels.
  template <size_t kOffset>
  static Codes LoadCodesAt(const std::byte* from) {
    Codes codes = LoadCodes(from + kOffset);
    __asm__("" : "+v"(codes));
    return codes;
  }
  static void StoreCodes(std::byte* to, Codes x) { _mm512_storeu_si512(to, x); }
  template <int kBits>
  static Codes ShiftDown(Codes x) {
    return _mm512_srli_epi16(x, kBits);
  }
  static Codes Mask(Codes x, uint8_t mask) { return _mm512_and_si512(x, _mm512_set1_epi8(static_cast<char>(mask))); }
  // Codes and I32 are one type here.
  static Codes FlipTopBits(Codes x) { return _mm512_xor_si512(x, _mm512_set1_epi8(-128)); }
  // Loaded as a scalar so that it folds into an instruction's 32-bit embedded broadcast.
  template <unsigned kQuad>
  static Codes Quad(Activations a) {
    int32_t quad;
    __builtin_memcpy(&quad, a + kQuad * kQuadK, sizeof(quad));
    return _mm512_set1_epi32(quad);
  }

  template <size_t kOffset>
  static Activations LoadActivations(const int8_t* a) {
    return a + kOffset;
  }
  static I32 LoadTerm(const ActivationBlock& block) { return BroadcastI32(block.term); }
  static F32 LoadScale(const ActivationBlock& block) { return BroadcastF32(block.scale); }

  static Acc ZeroAcc() { return _mm512_setzero_si512(); }
  static I32 BroadcastI32(const int32_t* from) { return _mm512_set1_epi32(*from); }
  static I32 LoadI32(const std::byte* from) { return LoadCodes(from); }
  static void StoreI32(std::byte* to, I32 x) { StoreCodes(to, x); }
  static I32 LoadBytes(const std::byte* from) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static constexpr int32_t kSumBias = 0;
  static I32 StartSum() { return _mm512_setzero_si512(); }
  // Upper halves of x are 0, so the pair sum is the one product.
  static I32 StartSum(I32 x, I32 y) { return _mm512_madd_epi16(x, y); }
  static F32 SumToFloat(I32 x) { return ToFloat(x); }
  static I32 AddI32(I32 x, I32 y) { return _mm512_add_epi32(x, y); }
  static I32 SubI32(I32 x, I32 y) { return _mm512_sub_epi32(x, y); }
  template <unsigned kBits>
  static I32 ShiftLanesUp(I32 x) {
    return _mm512_slli_epi32(x, kBits);
  }
  template <unsigned kBits>
  static I32 ShiftLanes(I32 x) {
    return _mm512_srli_epi32(x, kBits);
  }
  static I32 ShiftLanesBy(I32 x, unsigned bits) {
    return _mm512_srl_epi32(x, _mm_cvtsi32_si128(static_cast<int>(bits)));
  }

  static F32 ZeroF32() { return _mm512_setzero_ps(); }
  static F32 BroadcastF32(const float* from) { return _mm512_set1_ps(*from); }
  static Scalar LoadScalar(const float* from) { return BroadcastF32(from); }
  static F32 LoadF32(const std::byte* from) { return _mm512_loadu_ps(from); }
  static void StoreF32(std::byte* to, F32 x) { _mm512_storeu_ps(to, x); }
  static F32 LoadHalf(const std::byte* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static F32 LoadPartial(const float* from, size_t columns) {
    return columns >= kLanes ? _mm512_loadu_ps(from) : _mm512_maskz_loadu_ps(ColumnMask(columns), from);
  }
  static void StorePartial(float* to, F32 x, size_t columns) {
    if (columns >= kLanes) {
      _mm512_storeu_ps(to, x);
    } else {
      _mm512_mask_storeu_ps(to, ColumnMask(columns), x);
    }
  }
  static F32 ToFloat(I32 x) { return _mm512_cvtepi32_ps(x); }
  static F32 Add(F32 x, F32 y) { return _mm512_add_ps(x, y); }
  static F32 Sub(F32 x, F32 y) { return _mm512_sub_ps(x, y); }
  static F32 Mul(F32 x, F32 y) { return _mm512_mul_ps(x, y); }
  static F32 Fma(F32 x, F32 y, F32 z) { return _mm512_fmadd_ps(x, y, z); }
  static F32 Negate(F32 x) { return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f)); }

  template <unsigned kBit, unsigned kBits>
  static F32 CodePlusPower(I32 x) {
    constexpr int kAndOr = 0xEA;  // (x & mask) | power
    const __m512i mask = _mm512_set1_epi32(((1 << kBits) - 1) << kBit);
    const __m512i power = _mm512_set1_epi32(static_cast<int>(150 - kBit) << 23);
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(x, mask, power, kAndOr));
  }

 private:
  static __mmask16 ColumnMask(size_t columns) { return static_cast<__mmask16>((1u << columns) - 1); }
};

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
