// SMMLA: each takes two rows x 8 k and two columns x 8 k. Accumulators hold [r0 c0, r0 c1, r1 c0, r1 c1] and so do the
// float sums; only the end of the tile puts them in rows.
//
// From the quad format, ZIP1/ZIP2 of one vector (4 columns x 4 bytes) of two neighbouring units give two columns x 8
// bytes each, whose planes hold 4 k of the first unit and 4 k of the second; A comes in the same order. A block of one
// unit zips the vector with itself shifted by one plane instead: planes 0|1 and 2|3, A in k order.
#pragma once

#include "loop.h"

namespace arm64_w2 {

enum class MatrixSource { kQuad, kPair, kPanel };

// kRows 1: A comes with its row doubled, the lower half of each accumulator is dropped.
template <unsigned kPairs, unsigned kVecs>
struct MatrixTile {
  float32x4_t c[kPairs][2 * kVecs] = {};

  void Store(const LoopArgs& t, unsigned rows) const {
    UNROLL for (unsigned p = 0; p < kPairs; ++p) {
      UNROLL for (unsigned v = 0; v < kVecs; ++v) {
        const float64x2_t left = vreinterpretq_f64_f32(c[p][2 * v]);
        const float64x2_t right = vreinterpretq_f64_f32(c[p][2 * v + 1]);
        vst1q_f32(t.c + 2 * p * t.ldc + 4 * v, vreinterpretq_f32_f64(vzip1q_f64(left, right)));
        if (2 * p + 1 < rows) {
          vst1q_f32(t.c + (2 * p + 1) * t.ldc + 4 * v, vreinterpretq_f32_f64(vzip2q_f64(left, right)));
        }
      }
    }
  }
};

// 4 columns x 32 k: all planes first, then every row pair over them, so that A's four vectors come by one load, or by
// two where four neighbouring registers would be hard to find.
template <bool kInPlace, unsigned kPairs, unsigned kColumnPairs>
ALWAYS_INLINE void MatrixPlanes(unsigned v, const uint8x16_t (&codes)[2], const int8_t* a, size_t a_stride,
                                Sum<kInPlace> (&sums)[kPairs][kColumnPairs]) {
  const int8x16_t planes[4][2] = {{Plane<0, kInPlace>(codes[0]), Plane<0, kInPlace>(codes[1])},
                                  {Plane<1, kInPlace>(codes[0]), Plane<1, kInPlace>(codes[1])},
                                  {Plane<2, kInPlace>(codes[0]), Plane<2, kInPlace>(codes[1])},
                                  {Plane<3, kInPlace>(codes[0]), Plane<3, kInPlace>(codes[1])}};
  UNROLL for (unsigned p = 0; p < kPairs; ++p) {
    int8x16_t rows[4];
    if constexpr (kPairs * kColumnPairs < 8) {
      LoadVectors(a + p * a_stride, rows);
    } else {
      int8x16_t half[2];
      LoadVectors(a + p * a_stride, half);
      rows[0] = half[0];
      rows[1] = half[1];
      LoadVectors(a + p * a_stride + 32, half);
      rows[2] = half[0];
      rows[3] = half[1];
    }
    UNROLL for (unsigned q = 0; q < 2; ++q) {
      Sum<kInPlace>& sum = sums[p][2 * v + q];
      sum.template Of<0>() = vmmlaq_s32(sum.template Of<0>(), rows[0], planes[0][q]);
      sum.template Of<1>() = vmmlaq_s32(sum.template Of<1>(), rows[1], planes[1][q]);
      sum.template Of<2>() = vmmlaq_s32(sum.template Of<2>(), rows[2], planes[2][q]);
      sum.template Of<3>() = vmmlaq_s32(sum.template Of<3>(), rows[3], planes[3][q]);
    }
  }
}

// Two columns x 8 bytes each, twice, of vector v: 4 columns x 32 k.
template <MatrixSource kSource>
ALWAYS_INLINE void LoadPairs(const uint8_t* b, unsigned v, uint8x16_t (&codes)[2]) {
  if constexpr (kSource == MatrixSource::kQuad) {
    const uint32x4_t first = vreinterpretq_u32_u8(vld1q_u8(b + 16 * v));
    const uint32x4_t second = vreinterpretq_u32_u8(vld1q_u8(b + 64 + 16 * v));
    codes[0] = vreinterpretq_u8_u32(vzip1q_u32(first, second));
    codes[1] = vreinterpretq_u8_u32(vzip2q_u32(first, second));
  } else {
    LoadVectors(b + 32 * v, codes);
  }
}

template <unsigned kRows, unsigned kColumns, unsigned kBlockLen, MatrixSource kSource, bool kInPlace>
ALWAYS_INLINE void MatrixDot(const LoopArgs& t) {
  constexpr unsigned kPairs = (kRows + 1) / 2;
  constexpr unsigned kVecs = kColumns / 4;
  constexpr size_t kBlockBytes = kBlockLen * 4 + 32;
  MatrixTile<kPairs, kVecs> tile;
  const uint8_t* b = t.b;
  const int8_t* a = t.a;
  for (size_t block = 0; block < t.blocks; ++block, b += kBlockBytes, a += 2 * kBlockLen) {
    Sum<kInPlace> sums[kPairs][2 * kVecs];
    UNROLL for (unsigned p = 0; p < kPairs; ++p) {
      UNROLL for (unsigned q = 0; q < 2 * kVecs; ++q) sums[p][q].Start(t.start + 4 * (p * t.meta_stride + block));
    }
    UNROLL for (unsigned k = 0; k < kBlockLen; k += 32) {
      UNROLL for (unsigned v = 0; v < kVecs; ++v) {
        uint8x16_t codes[2];
        LoadPairs<kSource>(b + 4 * k, v, codes);
        MatrixPlanes(v, codes, a + 2 * k, t.a_stride, sums);
        if constexpr (kRows * kColumns >= 32) LoadNothingAhead();
      }
    }
    UNROLL for (unsigned v = 0; v < kVecs; ++v) {
      const float64x2_t four = vreinterpretq_f64_f32(HalfToFloat(b + kBlockLen * 4 + 8 * v));
      const float32x4_t b_scales[2] = {vreinterpretq_f32_f64(vdupq_laneq_f64(four, 0)),
                                       vreinterpretq_f32_f64(vdupq_laneq_f64(four, 1))};
      UNROLL for (unsigned p = 0; p < kPairs; ++p) {
        const float32x4_t a_scales = vld1q_f32(t.scales + 4 * (p * t.meta_stride + block));
        UNROLL for (unsigned q = 0; q < 2; ++q) {
          float32x4_t& c = tile.c[p][2 * v + q];
          c = vfmaq_f32(c, ToFloat(sums[p][2 * v + q].Join()), vmulq_f32(a_scales, b_scales[q]));
        }
      }
    }
  }
  tile.Store(t, kRows);
}

// A block of one unit.
template <unsigned kRows, unsigned kColumns>
ALWAYS_INLINE void MatrixDot16(const LoopArgs& t) {
  constexpr unsigned kPairs = (kRows + 1) / 2;
  constexpr unsigned kVecs = kColumns / 4;
  MatrixTile<kPairs, kVecs> tile;
  const uint8_t* b = t.b;
  const int8_t* a = t.a;
  for (size_t block = 0; block < t.blocks; ++block, b += 96, a += 32) {
    UNROLL for (unsigned v = 0; v < kVecs; ++v) {
      const uint8x16_t codes = vld1q_u8(b + 16 * v);
      const uint32x4_t even = vreinterpretq_u32_u8(codes);
      const uint32x4_t odd = vreinterpretq_u32_u8(vshrq_n_u8(codes, 2));
      const uint8x16_t zipped[2] = {vreinterpretq_u8_u32(vzip1q_u32(even, odd)),
                                    vreinterpretq_u8_u32(vzip2q_u32(even, odd))};
      const float64x2_t four = vreinterpretq_f64_f32(HalfToFloat(b + 64 + 8 * v));
      const float32x4_t b_scales[2] = {vreinterpretq_f32_f64(vdupq_laneq_f64(four, 0)),
                                       vreinterpretq_f32_f64(vdupq_laneq_f64(four, 1))};
      UNROLL for (unsigned q = 0; q < 2; ++q) {
        const int8x16_t low = Plane<0, false>(zipped[q]);
        const int8x16_t high = Plane<2, false>(zipped[q]);
        UNROLL for (unsigned p = 0; p < kPairs; ++p) {
          const int8_t* rows = a + p * t.a_stride;
          int32x4_t sum = LoadAnew(t.start + 4 * (p * t.meta_stride + block));
          sum = vmmlaq_s32(sum, vld1q_s8(rows), low);
          sum = vmmlaq_s32(sum, vld1q_s8(rows + 16), high);
          const float32x4_t a_scales = vld1q_f32(t.scales + 4 * (p * t.meta_stride + block));
          float32x4_t& c = tile.c[p][2 * v + q];
          c = vfmaq_f32(c, ToFloat(sum), vmulq_f32(a_scales, b_scales[q]));
        }
      }
    }
  }
  tile.Store(t, kRows);
}

// Over a panel: column pairs x 8 k of int8, and fp32 scales as [b0 b1 b0 b1] per pair.
template <unsigned kRows, unsigned kColumns, unsigned kBlockLen>
ALWAYS_INLINE void MatrixPanelDot(const LoopArgs& t) {
  constexpr unsigned kPairs = (kRows + 1) / 2;
  constexpr unsigned kColumnPairs = kColumns / 2;
  MatrixTile<kPairs, kColumns / 4> tile;
  const auto* b = reinterpret_cast<const int8_t*>(t.b);
  const int8_t* a = t.a;
  for (size_t block = 0; block < t.blocks; ++block, b += kBlockLen * 16 + 128, a += 2 * kBlockLen) {
    int32x4_t sums[kPairs][kColumnPairs];
    UNROLL for (unsigned p = 0; p < kPairs; ++p) {
      UNROLL for (unsigned q = 0; q < kColumnPairs; ++q) {
        sums[p][q] = LoadAnew(t.start + 4 * (p * t.meta_stride + block));
      }
    }
    UNROLL for (unsigned k = 0; k < kBlockLen; k += 8) {
      int8x16_t columns[kColumnPairs];
      LoadVectors(b + 16 * k, columns);
      UNROLL for (unsigned p = 0; p < kPairs; ++p) {
        const int8x16_t rows = vld1q_s8(a + p * t.a_stride + 2 * k);
        UNROLL for (unsigned q = 0; q < kColumnPairs; ++q) sums[p][q] = vmmlaq_s32(sums[p][q], rows, columns[q]);
      }
    }
    const auto* scales = reinterpret_cast<const float*>(b + kBlockLen * 16);
    UNROLL for (unsigned p = 0; p < kPairs; ++p) {
      const float32x4_t a_scales = vld1q_f32(t.scales + 4 * (p * t.meta_stride + block));
      UNROLL for (unsigned q = 0; q < kColumnPairs; ++q) {
        const float32x4_t b_scales = vld1q_f32(scales + 4 * q);
        tile.c[p][q] = vfmaq_f32(tile.c[p][q], ToFloat(sums[p][q]), vmulq_f32(a_scales, b_scales));
      }
    }
  }
  tile.Store(t, kRows);
}

}  // namespace arm64_w2
