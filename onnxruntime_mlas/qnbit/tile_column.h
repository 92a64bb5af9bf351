// The CompInt8 tile of the column format (layout.h) on NEON with DotProd: kRows rows of A times kColumns columns, each
// in vectors of its own. The four lanes of an accumulator add up to one column's sum, which takes three pairwise adds
// per four columns at the end of every block; the arithmetic after them is that of tile_int8.h, so results agree to the
// bit.
//
// Unpacking takes six operations per vector by shift and mask, which rows share, and four in place (dot_int8.h), plus
// two per row and block to join three accumulators. So planes are masked in place where blocks are of two vectors or
// more. Where a plane is a block, codes times 4 or 16 need no accumulator of their own: their sum, of four columns at
// once, is shifted down.
#pragma once

#include <type_traits>

#include "qnbit/isa/neon_dotprod.h"
#include "qnbit/kernels.h"
#include "qnbit/tile_int8.h"

namespace onnxruntime_mlas::qnbit {
namespace {

using D = NeonDotProd;

// Lane 0 as stored, the others 0: the start of an accumulator whose lanes are added up.
template <size_t kOffset>
ORT_MLAS_INLINE inline int32x4_t LoadFirstLane(const int32_t* from) {
  int32x4_t loaded;
  // Not merged with another: a copy would be a vector operation.
  __asm__ volatile("ldr %s0, [%1, %2]" : "=w"(loaded) : "r"(from), "i"(kOffset));
  return loaded;
}

ORT_MLAS_INLINE inline int32x4_t Dot16(int32x4_t acc, uint8x16_t codes, int8x16_t a) {
  return vdotq_s32(acc, vreinterpretq_s8_u8(codes), a);
}

// How a block of codes lies in vectors.
struct Short16 {  // one plane
  static constexpr unsigned kPlanes = 1;
};
struct Short32 {  // two planes
  static constexpr unsigned kPlanes = 2;
};
struct OneVector {  // 64 k
  static constexpr unsigned kPlanes = kVectorPlanes;
};
struct MoreVectors {  // 128 or 256 k
  static constexpr unsigned kPlanes = kVectorPlanes;
};

// Where the next column's loads are made from, moving from group to group.
template <unsigned kRows, ZeroPointKind kZeroPoints>
struct ColumnCursor {
  static constexpr bool kStartsAtTerm = kZeroPoints == ZeroPointKind::kUniform;
  static constexpr size_t kStartStride = kStartsAtTerm ? sizeof(ActivationBlock) : 0;

  const std::byte* vectors;      // of the group, from the tile's first column on
  const int32_t* starts[kRows];  // what sums start from

  // Keeps the compiler from loading for later columns before `acc` is computed: left to itself, it loads for all of
  // them first and spills what it has no registers for. No instruction comes of it.
  ORT_MLAS_INLINE void After(int32x4_t (&acc)[kRows]) {
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) __asm__("" : "+w"(acc[r]), "+r"(vectors), "+r"(starts[r]));
  }
};

// Up to a vector of one column: kCount planes from kPlane on, times kCount * 16 k of every row.
template <unsigned kPlane, unsigned kRows, unsigned kCount>
ORT_MLAS_INLINE inline void DotVector(const std::byte* vector, const int8x16_t (&a)[kRows][kCount],
                                      int32x4_t (&acc)[kRows]) {
  const auto codes = D::LoadCodes(vector);
  ForEach<kCount>([&]<unsigned kP>() ORT_MLAS_INLINE {
    const auto plane = Plane<D, 2, kPlane + kP>(codes);
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) acc[r] = Dot16(acc[r], plane, a[r][kP]);
  });
}

// An even number of vectors of one column.
template <unsigned kRows>
ORT_MLAS_INLINE inline void DotVectors(const std::byte* vectors, size_t count, const int8_t* a, size_t a_stride,
                                       int32x4_t (&acc)[kRows]) {
  int32x4_t times4[kRows], times16[kRows];
  ORT_MLAS_UNROLL
  for (unsigned r = 0; r < kRows; ++r) {
    times4[r] = D::ZeroAcc();
    times16[r] = D::ZeroAcc();
  }
  const auto dot = [&](const std::byte* vector, const int8_t* row) ORT_MLAS_INLINE {
    const auto codes = D::LoadCodes(vector);
    const auto plane0 = D::Mask(codes, 0x03), plane1 = D::Mask(codes, 0x0C), plane2 = D::Mask(codes, 0x30);
    const auto plane3 = D::ShiftDown<6>(codes);
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r, row += a_stride) {
      acc[r] = Dot16(acc[r], plane0, vld1q_s8(row));
      times4[r] = Dot16(times4[r], plane1, vld1q_s8(row + kVectorBytes));
      times16[r] = Dot16(times16[r], plane2, vld1q_s8(row + 2 * kVectorBytes));
      acc[r] = Dot16(acc[r], plane3, vld1q_s8(row + 3 * kVectorBytes));
    }
  };
  for (size_t vector = 0; vector < count; vector += 2) {
    dot(vectors, a);
    dot(vectors + kVectorRowBytes, a + kVectorK);
    vectors += 2 * kVectorRowBytes;
    a += 2 * kVectorK;
  }
  ORT_MLAS_UNROLL
  for (unsigned r = 0; r < kRows; ++r) {
    acc[r] = D::AddShifted<2>(acc[r], times4[r]);
    acc[r] = D::AddShifted<4>(acc[r], times16[r]);
  }
}

// The sum of each accumulator's lanes: one per lane, or of a single accumulator in all lanes.
ORT_MLAS_INLINE inline int32x4_t AddLanes(const int32x4_t (&acc)[4]) {
  return vpaddq_s32(vpaddq_s32(acc[0], acc[1]), vpaddq_s32(acc[2], acc[3]));
}
ORT_MLAS_INLINE inline int32x4_t AddLanes(const int32x4_t (&acc)[1]) {
  const int32x4_t pairs = vpaddq_s32(acc[0], acc[0]);
  return vpaddq_s32(pairs, pairs);
}

// Sums of the group's block kIndex for kColumns (1 or 4) columns, from the tile's column kFirst on.
template <class Block, unsigned kIndex, unsigned kFirst, unsigned kColumns, unsigned kRows, ZeroPointKind kZeroPoints>
ORT_MLAS_INLINE inline void ColumnSums(const Int8Args& t, size_t group_vectors,
                                       ColumnCursor<kRows, kZeroPoints>& cursor, const int8_t* a,
                                       const int8x16_t (&loaded)[kRows][Block::kPlanes], int32x4_t (&sums)[kRows]) {
  constexpr unsigned kPlane = kIndex * Block::kPlanes;
  constexpr size_t kStart = kIndex * ColumnCursor<kRows, kZeroPoints>::kStartStride;
  constexpr bool kInPlace = Block::kPlanes == 1 && (kPlane == 1 || kPlane == 2);
  constexpr unsigned kAhead = kRows == 1 ? 1 : 0;
  int32x4_t acc[kColumns][kRows];
  ORT_MLAS_UNROLL
  for (unsigned i = 0; i < kColumns; ++i) {
    const std::byte* vectors = cursor.vectors + (kFirst + i) * kVectorBytes;
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) {
      acc[i][r] = kInPlace ? D::ZeroAcc() : LoadFirstLane<kStart>(cursor.starts[r]);
    }
    if constexpr (kInPlace) {
      const auto codes = D::Mask(D::LoadCodes(vectors), 0x03 << 2 * kPlane);
      ORT_MLAS_UNROLL
      for (unsigned r = 0; r < kRows; ++r) acc[i][r] = Dot16(acc[i][r], codes, loaded[r][0]);
    } else if constexpr (std::is_same_v<Block, MoreVectors>) {
      DotVectors(vectors, group_vectors, a, t.a_stride, acc[i]);
    } else {
      DotVector<kPlane>(vectors, loaded, acc[i]);
    }
    if (i >= kAhead) cursor.After(acc[i - kAhead]);
  }
  ORT_MLAS_UNROLL
  for (unsigned r = 0; r < kRows; ++r) {
    int32x4_t of_row[kColumns];
    ORT_MLAS_UNROLL
    for (unsigned i = 0; i < kColumns; ++i) of_row[i] = acc[i][r];
    sums[r] = AddLanes(of_row);
    if constexpr (kInPlace) {
      const int32x4_t start = LoadApart(cursor.starts[r] + kStart / sizeof(int32_t));
      sums[r] = D::AddShifted<2 * kPlane>(start, sums[r]);
    }
  }
  cursor.After(sums);
}

// Scales and zero points of a block for kColumns columns. Of a single one nothing is read beyond it.
template <unsigned kColumns>
ORT_MLAS_INLINE inline float32x4_t LoadColumnScales(const Layout& layout, const std::byte* scales) {
  const bool half = layout.scale_type == ScaleType::kFp16;
  if constexpr (kColumns == 4) return half ? D::LoadHalf(scales) : D::LoadF32(scales);
  if (!half) return D::BroadcastF32(reinterpret_cast<const float*>(scales));
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_dup_u16(reinterpret_cast<const uint16_t*>(scales))));
}
template <unsigned kColumns>
ORT_MLAS_INLINE inline int32x4_t LoadColumnZeroPoints(const std::byte* zero_points) {
  if constexpr (kColumns == 4) return D::LoadBytes(zero_points);
  return vdupq_n_s32(static_cast<int32_t>(*zero_points));
}
template <unsigned kColumns>
ORT_MLAS_INLINE inline float32x4_t LoadColumnFloats(const std::byte* from) {
  if constexpr (kColumns == 4) return D::LoadF32(from);
  return D::BroadcastF32(reinterpret_cast<const float*>(from));
}

// The group's block kIndex for kVecs vectors of kColumns columns, from column `lane` of the strip on. `parameters`: the
// block's scales.
template <class Block, unsigned kIndex, unsigned kColumns, unsigned kRows, unsigned kVecs, ZeroPointKind kZeroPoints>
ORT_MLAS_INLINE inline void ColumnBlock(const Int8Args& t, const Layout& layout,
                                        ColumnCursor<kRows, kZeroPoints>& cursor, const std::byte* parameters,
                                        size_t lane, const int8_t* a, const ActivationBlock* meta,
                                        float32x4_t (&c)[kRows][kVecs]) {
  // A block of more vectors has more of A than registers hold.
  int8x16_t loaded[kRows][Block::kPlanes];
  if constexpr (!std::is_same_v<Block, MoreVectors>) {
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) {
      ORT_MLAS_UNROLL
      for (unsigned p = 0; p < Block::kPlanes; ++p) loaded[r][p] = vld1q_s8(a + r * t.a_stride + p * kVectorBytes);
    }
  }
  const std::byte* zero_points = parameters + kStripColumns * layout.scale_bytes;
  ForEach<kVecs>([&]<unsigned kV>() ORT_MLAS_INLINE {
    const size_t at = lane + kV * kColumns;
    int32x4_t sums[kRows];
    ColumnSums<Block, kIndex, kV * kColumns, kColumns>(t, layout.group_vectors, cursor, a, loaded, sums);
    if constexpr (kZeroPoints == ZeroPointKind::kPerBlock) {
      const auto values = LoadColumnZeroPoints<kColumns>(zero_points + at);
      ORT_MLAS_UNROLL
      for (unsigned r = 0; r < kRows; ++r) sums[r] = vmlaq_s32(sums[r], values, D::LoadTerm(meta[r * t.meta_stride]));
    }
    const auto b_scale = LoadColumnScales<kColumns>(layout, parameters + at * layout.scale_bytes);
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) {
      const auto a_scale = D::LoadScale(meta[r * t.meta_stride]);
      c[r][kV] = D::Fma(D::SumToFloat(sums[r]), D::Mul(a_scale, b_scale), c[r][kV]);
    }
    if constexpr (kZeroPoints == ZeroPointKind::kFloat) {
      const auto values = LoadColumnFloats<kColumns>(zero_points + at * sizeof(float));
      const auto offset = D::Negate(D::Mul(values, b_scale));
      ORT_MLAS_UNROLL
      for (unsigned r = 0; r < kRows; ++r) {
        const ActivationBlock& m = meta[r * t.meta_stride];
        c[r][kV] = D::Fma(D::Mul(D::LoadScale(m), D::ToFloat(D::LoadTerm(m))), offset, c[r][kV]);
      }
    }
  });
}

// A function of its own: inlined into the loops over tiles, compilers would unroll those.
template <class Block, unsigned kRows, unsigned kVecs, unsigned kColumns, ZeroPointKind kZeroPoints>
__attribute__((noinline)) void ColumnTile(const Int8Args& args, size_t lane) {
  using Cursor = ColumnCursor<kRows, kZeroPoints>;
  constexpr unsigned kGroupBlocks = kVectorPlanes / Block::kPlanes;
  // Copies, which stay in registers.
  const Int8Args t = args;
  const Layout layout = *args.layout;
  const auto c_at = [&](unsigned r, unsigned v) { return t.c + r * t.ldc + lane + v * kColumns; };
  float32x4_t c[kRows][kVecs];
  ORT_MLAS_UNROLL
  for (unsigned r = 0; r < kRows; ++r) {
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) c[r][v] = t.first ? D::ZeroF32() : D::LoadPartial(c_at(r, v), kColumns);
  }
  const int8_t* a = t.a;
  const ActivationBlock* meta = t.meta;
  const std::byte* parameters = t.b + layout.scales_offset;
  Cursor cursor;
  cursor.vectors = t.b + lane * kVectorBytes;
  ORT_MLAS_UNROLL
  for (unsigned r = 0; r < kRows; ++r) {
    cursor.starts[r] = Cursor::kStartsAtTerm ? meta[r * t.meta_stride].term : kSumBiasWords;
  }
  // The blocks of a group that exist, of which there are kGroupBlocks but in the last.
  const auto run_group = [&](size_t blocks) ORT_MLAS_INLINE {
    ForEach<kGroupBlocks>([&]<unsigned kI>() ORT_MLAS_INLINE {
      if (kI >= blocks) return;
      ColumnBlock<Block, kI, kColumns>(t, layout, cursor, parameters + kI * layout.parameters_bytes, lane,
                                       a + kI * layout.block_len, meta + kI, c);
    });
  };
  size_t left = t.blocks;
  for (; left >= kGroupBlocks; left -= kGroupBlocks) {
    run_group(kGroupBlocks);
    cursor.vectors += layout.group_bytes;
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) cursor.starts[r] += kGroupBlocks * Cursor::kStartStride / sizeof(int32_t);
    parameters += layout.group_bytes;
    a += kGroupBlocks * layout.block_len;
    meta += kGroupBlocks;
  }
  if constexpr (kGroupBlocks > 1) {
    if (left != 0) run_group(left);
  }
  ORT_MLAS_UNROLL
  for (unsigned r = 0; r < kRows; ++r) {
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      if (t.bias != nullptr) c[r][v] = D::Add(c[r][v], D::LoadPartial(t.bias + lane + v * kColumns, kColumns));
      D::StorePartial(c_at(r, v), c[r][v], kColumns);
    }
  }
}

// Tiles of kVecs vectors of kColumns columns from `lane` on, then narrower ones, down to single columns.
template <class Block, unsigned kRows, unsigned kVecs, unsigned kColumns, ZeroPointKind kZeroPoints>
inline void ColumnTiles(const Int8Args& t, size_t lane) {
  for (; lane + kVecs * kColumns <= t.columns; lane += kVecs * kColumns) {
    ColumnTile<Block, kRows, kVecs, kColumns, kZeroPoints>(t, lane);
  }
  if constexpr (kVecs > 1) {
    ColumnTiles<Block, kRows, kVecs / 2, kColumns, kZeroPoints>(t, lane);
  } else if constexpr (kColumns > 1) {
    ColumnTiles<Block, kRows, 1, 1, kZeroPoints>(t, lane);
  }
}

template <class Block, unsigned kRows, unsigned kVecs, unsigned kColumns>
inline void ColumnTilesOfKind(const Int8Args& t) {
  switch (t.layout->zero_point_kind) {
    case ZeroPointKind::kUniform:
      return ColumnTiles<Block, kRows, kVecs, kColumns, ZeroPointKind::kUniform>(t, 0);
    case ZeroPointKind::kPerBlock:
      return ColumnTiles<Block, kRows, kVecs, kColumns, ZeroPointKind::kPerBlock>(t, 0);
    case ZeroPointKind::kFloat:
      return ColumnTiles<Block, kRows, kVecs, kColumns, ZeroPointKind::kFloat>(t, 0);
  }
}

// The entry of a row, kTileColumns = 1, 4 or 8.
template <unsigned kRows, unsigned kTileColumns>
void RunColumn(const Int8Args& t) {
  constexpr unsigned kColumns = kTileColumns == 1 ? 1 : 4;
  constexpr unsigned kVecs = kTileColumns / kColumns;
  if (t.layout->group_blocks == 4) return ColumnTilesOfKind<Short16, kRows, kVecs, kColumns>(t);
  if (t.layout->group_blocks == 2) return ColumnTilesOfKind<Short32, kRows, kVecs, kColumns>(t);
  if (t.layout->group_vectors == 1) return ColumnTilesOfKind<OneVector, kRows, kVecs, kColumns>(t);
  ColumnTilesOfKind<MoreVectors, kRows, kVecs, kColumns>(t);
}

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
