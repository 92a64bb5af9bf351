// AVX-512 VNNI: VPDPBUSD, u8 x s8 4-way dots into int32. A's quad is its 32-bit embedded broadcast.
#pragma once

#include "qnbit/isa/x86_512.h"

namespace onnxruntime_mlas::qnbit {
namespace {

struct Avx512Vnni : X86Vector512 {
  static constexpr bool kInt32Dots = true;
  static Acc Dot(Acc acc, Codes codes, Codes a) { return _mm512_dpbusd_epi32(acc, codes, a); }
  static Acc AddQuarter(Acc low, Acc high) { return _mm512_add_epi32(low, _mm512_srai_epi32(high, 2)); }
};

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
