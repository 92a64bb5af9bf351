// One column per vector: SDOT adds 4 x 4 products of one column, so every block ends in horizontal adds.
//
// A column's vector holds 64 k at 2 bits: byte j has k = 16p + j in plane p. The same tile also runs on the interleaved
// layout of the design note's options b and c, where 4 columns x 4 units of 4 bytes stand together and are transposed
// by UZP1/UZP2 or LD4: a column's vector then has byte 4u + j with k = 16u + 4p + j, and A comes in the same order.
#pragma once

#include "loop.h"

namespace arm64_w2 {

enum class ColumnSource { kColumn, kUzp, kLd4 };

// [start, 0, 0, 0].
ALWAYS_INLINE int32x4_t LoadStartLane(const int32_t* p) {
  int32x4_t v;
  asm volatile("ldr %s0, %1" : "=w"(v) : "m"(*p));
  return v;
}

// Vectors of the 4 columns of a group, or of its first kColumns.
template <ColumnSource kSource, unsigned kColumns>
ALWAYS_INLINE void LoadColumns(const uint8_t* group, uint8x16_t (&columns)[kColumns]) {
  if constexpr (kSource == ColumnSource::kColumn) {
    UNROLL for (unsigned c = 0; c < kColumns; ++c) columns[c] = vld1q_u8(group + 16 * c);
  } else if constexpr (kSource == ColumnSource::kLd4) {
    const uint32x4x4_t four = vld4q_u32(reinterpret_cast<const uint32_t*>(group));
    UNROLL for (unsigned c = 0; c < kColumns; ++c) columns[c] = vreinterpretq_u8_u32(four.val[c]);
  } else {
    uint32x4_t unit[4];
    UNROLL for (unsigned u = 0; u < 4; ++u) unit[u] = vreinterpretq_u32_u8(vld1q_u8(group + 16 * u));
    const uint32x4_t even[2] = {vuzp1q_u32(unit[0], unit[1]), vuzp1q_u32(unit[2], unit[3])};
    columns[0] = vreinterpretq_u8_u32(vuzp1q_u32(even[0], even[1]));
    if constexpr (kColumns == 4) {
      const uint32x4_t odd[2] = {vuzp2q_u32(unit[0], unit[1]), vuzp2q_u32(unit[2], unit[3])};
      columns[1] = vreinterpretq_u8_u32(vuzp1q_u32(odd[0], odd[1]));
      columns[2] = vreinterpretq_u8_u32(vuzp2q_u32(even[0], even[1]));
      columns[3] = vreinterpretq_u8_u32(vuzp2q_u32(odd[0], odd[1]));
    }
  }
}

ALWAYS_INLINE int32x4_t DotColumn(const int8x16_t (&planes)[4], const int8x16_t (&a)[4], int32x4_t sum) {
  UNROLL for (unsigned p = 0; p < 4; ++p) sum = vdotq_s32(sum, planes[p], a[p]);
  return sum;
}

template <unsigned kRows, unsigned kColumns, ColumnSource kSource>
ALWAYS_INLINE void ColumnDot(const LoopArgs& t) {
  constexpr unsigned kGroupColumns = kColumns < 4 ? kColumns : 4;
  constexpr unsigned kGroups = kColumns / kGroupColumns;
  static_assert(kColumns == 1 || kColumns % 4 == 0);
  float32x4_t c[kRows][kGroups] = {};
  const uint8_t* b = t.b;
  const int8_t* a = t.a;
  for (size_t block = 0; block < t.blocks; ++block, b += 288, a += 64) {
    int8x16_t a_planes[kRows][4];
    UNROLL for (unsigned r = 0; r < kRows; ++r) {
      UNROLL for (unsigned p = 0; p < 4; ++p) a_planes[r][p] = vld1q_s8(a + r * t.a_stride + 16 * p);
    }
    UNROLL for (unsigned g = 0; g < kGroups; ++g) {
      uint8x16_t codes[kGroupColumns];
      LoadColumns<kSource>(b + 64 * g, codes);
      int32x4_t sums[kRows][kGroupColumns];
      UNROLL for (unsigned n = 0; n < kGroupColumns; ++n) {
        const int8x16_t planes[4] = {Plane<0, false>(codes[n]), Plane<1, false>(codes[n]), Plane<2, false>(codes[n]),
                                     Plane<3, false>(codes[n])};
        UNROLL for (unsigned r = 0; r < kRows; ++r) {
          const int32x4_t start = LoadStartLane(t.start + 4 * (r * t.meta_stride + block));
          sums[r][n] = DotColumn(planes, a_planes[r], start);
        }
      }
      UNROLL for (unsigned r = 0; r < kRows; ++r) {
        const float a_scale = t.scales[r * t.meta_stride + block];
        if constexpr (kGroupColumns == 1) {
          // One lane of work in every step from here on.
          const int32x4_t total = vpaddq_s32(vpaddq_s32(sums[r][0], sums[r][0]), sums[r][0]);
          const float32x4_t b_scale =
              vcvt_f32_f16(vreinterpret_f16_u16(vld1_dup_u16(reinterpret_cast<const uint16_t*>(b + 256))));
          c[r][g] = vfmaq_f32(c[r][g], ToFloat(total), vmulq_n_f32(b_scale, a_scale));
        } else {
          const int32x4_t total = vpaddq_s32(vpaddq_s32(sums[r][0], sums[r][1]), vpaddq_s32(sums[r][2], sums[r][3]));
          c[r][g] = vfmaq_f32(c[r][g], ToFloat(total), vmulq_n_f32(HalfToFloat(b + 256 + 8 * g), a_scale));
        }
      }
    }
  }
  UNROLL for (unsigned r = 0; r < kRows; ++r) {
    UNROLL for (unsigned g = 0; g < kGroups; ++g) {
      if constexpr (kColumns == 1) {
        t.c[r * t.ldc] = vgetq_lane_f32(c[r][g], 0);
      } else {
        vst1q_f32(t.c + r * t.ldc + 4 * g, c[r][g]);
      }
    }
  }
}

}  // namespace arm64_w2
