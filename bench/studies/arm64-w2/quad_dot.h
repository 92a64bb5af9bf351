// SDOT by element on the quad format (qnbit/layout.h): each SDOT takes 4 columns x 4 k and 4 bytes of one row.
#pragma once

#include "loop.h"

namespace arm64_w2 {

template <unsigned kPlane, bool kInPlace, unsigned kRows, unsigned kVecs>
ALWAYS_INLINE void QuadDotPlane(const uint8x16_t (&codes)[kVecs], const int8x16_t (&a)[kRows],
                                Sum<kInPlace> (&sums)[kRows][kVecs]) {
  UNROLL for (unsigned v = 0; v < kVecs; ++v) {
    const int8x16_t plane = Plane<kPlane, kInPlace>(codes[v]);
    UNROLL for (unsigned r = 0; r < kRows; ++r) {
      int32x4_t& sum = sums[r][v].template Of<kPlane>();
      sum = vdotq_laneq_s32(sum, plane, a[r], kPlane);
    }
  }
}

template <unsigned kRows, unsigned kVecs>
ALWAYS_INLINE void ScaleAccumulate(const LoopArgs& t, size_t block, const float32x4_t (&b_scales)[kVecs],
                                   const float32x4_t (&sums)[kRows][kVecs], float32x4_t (&c)[kRows][kVecs]) {
  UNROLL for (unsigned r = 0; r < kRows; ++r) {
    const float a_scale = t.scales[r * t.meta_stride + block];
    UNROLL for (unsigned v = 0; v < kVecs; ++v) {
      c[r][v] = vfmaq_f32(c[r][v], sums[r][v], vmulq_n_f32(b_scales[v], a_scale));
    }
  }
}

template <unsigned kRows, unsigned kVecs>
ALWAYS_INLINE void StoreTile(const LoopArgs& t, const float32x4_t (&c)[kRows][kVecs]) {
  UNROLL for (unsigned r = 0; r < kRows; ++r) {
    UNROLL for (unsigned v = 0; v < kVecs; ++v) vst1q_f32(t.c + r * t.ldc + 4 * v, c[r][v]);
  }
}

template <unsigned kRows, unsigned kColumns, unsigned kBlockLen, bool kInPlace>
ALWAYS_INLINE void QuadDot(const LoopArgs& t) {
  constexpr unsigned kVecs = kColumns / 4;
  constexpr unsigned kUnits = kBlockLen / 16;
  constexpr unsigned kGroup = kRows == 8 || kRows * kColumns > 32 || kUnits == 1 || (kInPlace && kColumns == 16) ? 1
                              : kRows == 1 && kUnits >= 4                                                        ? 4
                                                                                                                 : 2;
  float32x4_t c[kRows][kVecs] = {};
  const uint8_t* b = t.b;
  const int8_t* a = t.a;
  for (size_t block = 0; block < t.blocks; ++block, b += kBlockLen * 4 + 32, a += kBlockLen) {
    Sum<kInPlace> sums[kRows][kVecs];
    UNROLL for (unsigned r = 0; r < kRows; ++r) {
      UNROLL for (unsigned v = 0; v < kVecs; ++v) sums[r][v].Start(t.start + 4 * (r * t.meta_stride + block));
    }
    UNROLL for (unsigned first = 0; first < kUnits; first += kGroup) {
      int8x16_t a_units[kRows][kGroup];
      UNROLL for (unsigned r = 0; r < kRows; ++r) LoadVectors(a + r * t.a_stride + 16 * first, a_units[r]);
      UNROLL for (unsigned unit = 0; unit < kGroup; ++unit) {
        int8x16_t a_unit[kRows];
        UNROLL for (unsigned r = 0; r < kRows; ++r) a_unit[r] = a_units[r][unit];
        uint8x16_t codes[kVecs];
        if constexpr (kInPlace && kColumns == 16) {
          // 16 of the registers are accumulators: four neighbouring ones for LD1 would be hard to find.
          UNROLL for (unsigned v = 0; v < kVecs; ++v) codes[v] = vld1q_u8(b + 64 * (first + unit) + 16 * v);
        } else {
          LoadVectors(b + 64 * (first + unit), codes);
        }
        QuadDotPlane<0>(codes, a_unit, sums);
        QuadDotPlane<1>(codes, a_unit, sums);
        QuadDotPlane<2>(codes, a_unit, sums);
        QuadDotPlane<3>(codes, a_unit, sums);
        if constexpr ((kInPlace && kColumns == 16) || kRows * kColumns >= 32) LoadNothingAhead();
      }
    }
    float32x4_t b_scales[kVecs];
    UNROLL for (unsigned v = 0; v < kVecs; ++v) b_scales[v] = HalfToFloat(b + kBlockLen * 4 + 8 * v);
    float32x4_t floats[kRows][kVecs];
    UNROLL for (unsigned r = 0; r < kRows; ++r) {
      UNROLL for (unsigned v = 0; v < kVecs; ++v) floats[r][v] = ToFloat(sums[r][v].Join());
    }
    ScaleAccumulate(t, block, b_scales, floats, c);
  }
  StoreTile(t, c);
}

template <unsigned kPlane, unsigned kRows, unsigned kVecs>
ALWAYS_INLINE void PanelPlane(const int8_t* planes, const int8x16_t (&a)[kRows], int32x4_t (&sums)[kRows][kVecs]) {
  int8x16_t plane[kVecs];
  LoadVectors(planes + 64 * kPlane, plane);
  UNROLL for (unsigned v = 0; v < kVecs; ++v) {
    UNROLL for (unsigned r = 0; r < kRows; ++r) sums[r][v] = vdotq_laneq_s32(sums[r][v], plane[v], a[r], kPlane);
  }
}

// The same over a panel: planes of int8 in k order, fp32 scales.
template <unsigned kRows, unsigned kColumns, unsigned kBlockLen>
ALWAYS_INLINE void QuadPanelDot(const LoopArgs& t) {
  constexpr unsigned kVecs = kColumns / 4;
  float32x4_t c[kRows][kVecs] = {};
  const auto* b = reinterpret_cast<const int8_t*>(t.b);
  const int8_t* a = t.a;
  for (size_t block = 0; block < t.blocks; ++block, b += kBlockLen * 16 + 64, a += kBlockLen) {
    int32x4_t sums[kRows][kVecs];
    UNROLL for (unsigned r = 0; r < kRows; ++r) {
      UNROLL for (unsigned v = 0; v < kVecs; ++v) sums[r][v] = LoadAnew(t.start + 4 * (r * t.meta_stride + block));
    }
    UNROLL for (unsigned unit = 0; unit < kBlockLen / 16; ++unit) {
      int8x16_t a_unit[kRows];
      UNROLL for (unsigned r = 0; r < kRows; ++r) a_unit[r] = vld1q_s8(a + r * t.a_stride + 16 * unit);
      PanelPlane<0>(b + 256 * unit, a_unit, sums);
      PanelPlane<1>(b + 256 * unit, a_unit, sums);
      PanelPlane<2>(b + 256 * unit, a_unit, sums);
      PanelPlane<3>(b + 256 * unit, a_unit, sums);
    }
    float32x4_t b_scales[kVecs];
    const auto* scales = reinterpret_cast<const float*>(b + kBlockLen * 16);
    UNROLL for (unsigned v = 0; v < kVecs; ++v) b_scales[v] = vld1q_f32(scales + 4 * v);
    float32x4_t floats[kRows][kVecs];
    UNROLL for (unsigned r = 0; r < kRows; ++r) {
      UNROLL for (unsigned v = 0; v < kVecs; ++v) floats[r][v] = ToFloat(sums[r][v]);
    }
    ScaleAccumulate(t, block, b_scales, floats, c);
  }
  StoreTile(t, c);
}

}  // namespace arm64_w2
