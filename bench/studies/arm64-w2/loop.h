// What every candidate loop takes and the steps that all of them share.
//
// A candidate computes kRows rows of A times kColumns columns of one strip of 16, block by block:
//   sum = -zero_point * sum(q) + dot(q, code),   c = fma(float(sum), a_scale * b_scale, c)
// with the block length fixed at compile time, so that the block loop is the only loop.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#define UNROLL _Pragma("clang loop unroll(full)")
#define ALWAYS_INLINE [[gnu::always_inline]] inline

namespace arm64_w2 {

inline constexpr size_t kStripColumns = 16;

struct LoopArgs {
  const uint8_t* b;      // the strip's blocks in the candidate's format (formats.h)
  const int8_t* a;       // rows or row pairs
  size_t a_stride;       // bytes between rows or row pairs
  const float* scales;   // of A: per row [blocks], or per row pair [blocks][4] = s0 s0 s1 s1
  const int32_t* start;  // per row [blocks][4], all alike, or per row pair [blocks][4] = t0 t0 t1 t1
  size_t meta_stride;    // blocks between rows or row pairs in `scales` and `start`
  size_t blocks;
  float* c;  // per row [kColumns]
  size_t ldc;
};

// An int32 accumulator that starts at the bits of 1.5 * 2^23 reads as the float 1.5 * 2^23 + sum while |sum| < 2^22:
// one FSUB converts it, where SCVTF takes two cycles of one pipe on most Neoverse cores.
inline constexpr int32_t kMagicBits = 0x4B400000;
inline constexpr float kMagic = 12582912.0F;

ALWAYS_INLINE float32x4_t ToFloat(int32x4_t sum) { return vsubq_f32(vreinterpretq_f32_s32(sum), vdupq_n_f32(kMagic)); }

// A load that the compiler can't replace by a copy of an earlier one: a copy takes a vector pipe, a load doesn't.
ALWAYS_INLINE int32x4_t LoadAnew(const int32_t* p) {
  int32x4_t v;
  asm volatile("ldr %q0, %1" : "=w"(v) : "m"(*reinterpret_cast<const int32x4_t*>(p)));
  return v;
}

// Keeps the compiler from loading ahead, which in a large tile only spills.
ALWAYS_INLINE void LoadNothingAhead() { asm volatile("" ::: "memory"); }

// kCount neighbouring vectors by LD1 of several registers: one micro-op each on Neoverse, where LDP counts three for
// two.
template <unsigned kCount>
ALWAYS_INLINE void LoadVectors(const uint8_t* p, uint8x16_t (&v)[kCount]) {
  if constexpr (kCount >= 4) {
    UNROLL for (unsigned i = 0; i < kCount; i += 4) {
      const uint8x16x4_t four = vld1q_u8_x4(p + 16 * i);
      UNROLL for (unsigned j = 0; j < 4; ++j) v[i + j] = four.val[j];
    }
  } else if constexpr (kCount == 2) {
    const uint8x16x2_t two = vld1q_u8_x2(p);
    v[0] = two.val[0];
    v[1] = two.val[1];
  } else {
    v[0] = vld1q_u8(p);
  }
}

template <unsigned kCount>
ALWAYS_INLINE void LoadVectors(const int8_t* p, int8x16_t (&v)[kCount]) {
  uint8x16_t bytes[kCount];
  LoadVectors(reinterpret_cast<const uint8_t*>(p), bytes);
  UNROLL for (unsigned i = 0; i < kCount; ++i) v[i] = vreinterpretq_s8_u8(bytes[i]);
}

ALWAYS_INLINE float32x4_t HalfToFloat(const uint8_t* p) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p))); }

// Planes of 2-bit codes. In place, planes 0, 1, 2 are codes times 1, 4, 16; plane 3 is shifted, since times 64 it would
// not fit a signed byte.
template <unsigned kPlane, bool kInPlace>
ALWAYS_INLINE int8x16_t Plane(uint8x16_t codes) {
  if constexpr (kPlane == 3) {
    return vreinterpretq_s8_u8(vshrq_n_u8(codes, 6));
  } else if constexpr (kInPlace || kPlane == 0) {
    return vreinterpretq_s8_u8(vandq_u8(codes, vdupq_n_u8(3U << (2 * kPlane))));
  } else {
    return vreinterpretq_s8_u8(vandq_u8(vshrq_n_u8(codes, 2 * kPlane), vdupq_n_u8(3)));
  }
}

// Accumulators of one vector: one, or in place three, joined exactly.
template <bool kInPlace>
struct Sum {
  int32x4_t by_scale[kInPlace ? 3 : 1];

  void Start(const int32_t* start) {
    by_scale[0] = LoadAnew(start);
    if constexpr (kInPlace) by_scale[1] = by_scale[2] = vdupq_n_s32(0);
  }
  template <unsigned kPlane>
  int32x4_t& Of() {
    return by_scale[kInPlace && kPlane != 3 ? kPlane : 0];
  }
  int32x4_t Join() const {
    if constexpr (!kInPlace) return by_scale[0];
    return vsraq_n_s32(vsraq_n_s32(by_scale[0], by_scale[1], 2), by_scale[2], 4);
  }
};

}  // namespace arm64_w2
