// The CompInt8 tile, written once over an ISA's vocabulary V (qnbit/isa/): kRows rows of A times neighbouring columns
// of one strip, or of several.
//
// Per block and row: c = fma(float(sum of code * q, less the zero points), a_scale * b_scale, c), and for float zero
// points also c = fma(a_scale * float(sum q), -(zero_point * b_scale), c). Every tile, path and ISA does these same
// operations in the same order, so results agree to the bit.
//
// Included by one translation unit per ISA. Everything is in an unnamed namespace: were two units to share an
// instantiation, the linker could hand an ISA's code to a machine without it.
#pragma once

#include "qnbit/dot_int8.h"
#include "qnbit/kernels.h"

namespace onnxruntime_mlas::qnbit {
namespace {

// What a block's sum starts from: the zero points' share. `lane` is the first column in the strip.
// Where codes come out less V::kCodeOffset = 2^7, it also makes up for that: term times 2^7 is -+sum(q) * kCodeOffset.
template <class V, ZeroPointKind kZeroPoints, bool kPanel>
ORT_MLAS_INLINE inline typename V::I32 Start(const Layout& layout, const std::byte* block, const ActivationBlock& meta,
                                             size_t lane) {
  if constexpr (kZeroPoints == ZeroPointKind::kUniform) {
    return V::LoadTerm(meta);
  } else if constexpr (kZeroPoints == ZeroPointKind::kPerBlock) {
    const auto zero_points = kPanel ? V::LoadI32(block + layout.panel_zero_points_offset() + lane * sizeof(int32_t))
                                    : V::LoadBytes(block + layout.zero_points_offset + lane);
    const auto term = V::LoadTerm(meta);
    const auto start = V::StartSum(zero_points, term);
    if constexpr (V::kCodeOffset == 0) return start;
    return V::SubI32(start, V::template ShiftLanesUp<7>(term));
  } else {
    if constexpr (V::kCodeOffset == 0) return V::StartSum();
    return V::AddI32(V::StartSum(), V::template ShiftLanesUp<7>(V::LoadTerm(meta)));
  }
}

template <class V, unsigned kBits, unsigned kRows, unsigned kVecs, ZeroPointKind kZeroPoints, bool kPanel>
ORT_MLAS_INLINE inline void BlockSums(const Int8Args& t, const Layout& layout, const CodesAt<V, kVecs>& blocks,
                                      const int8_t* a, const ActivationBlock* meta, size_t first_lane,
                                      typename V::I32 (&sums)[kRows][kVecs]) {
  constexpr unsigned kStripVecs = CodesAt<V, kVecs>::kStripVecs;
  const auto codes = blocks.After(first_lane * kColumnBytes);
  const size_t steps = layout.block_len / kStepK;
  const auto start = [&](unsigned r, unsigned v) {
    return Start<V, kZeroPoints, kPanel>(layout, blocks.strips[v / kStripVecs], meta[r * t.meta_stride],
                                         first_lane + v % kStripVecs * V::kLanes);
  };
  if constexpr (V::kInt32Dots) {
    // The dots accumulate onto the start: it costs nothing.
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) {
      ORT_MLAS_UNROLL
      for (unsigned v = 0; v < kVecs; ++v) sums[r][v] = start(r, v);
    }
    DotSegment<V, kBits, kRows, kVecs, kPanel>(codes, steps, a, t.a_stride, sums);
  } else {
    constexpr size_t kStepBytes = (kPanel ? 4 : kStepUnits<kBits>)*kUnitBytes;
    const size_t segment = MaxSegmentSteps < kRows == 1 && !kPanel > (kPanel ? layout.bits : kBits, steps);
    size_t step = 0;
    do {
      typename V::Acc acc[kRows][kVecs];
      ORT_MLAS_UNROLL
      for (unsigned r = 0; r < kRows; ++r) {
        ORT_MLAS_UNROLL
        for (unsigned v = 0; v < kVecs; ++v) acc[r][v] = V::ZeroAcc();
      }
      DotSegment<V, kBits, kRows, kVecs, kPanel>(codes.After(step * kStepBytes), segment, a + step * kStepK, t.a_stride,
                                                 acc);
      ORT_MLAS_UNROLL
      for (unsigned r = 0; r < kRows; ++r) {
        ORT_MLAS_UNROLL
        for (unsigned v = 0; v < kVecs; ++v) {
          const auto widened = V::Widen(acc[r][v]);
          if (step != 0) {
            sums[r][v] = V::AddI32(sums[r][v], widened);
          } else if constexpr (kZeroPoints == ZeroPointKind::kFloat && V::kSumBias == 0) {
            sums[r][v] = widened;
          } else {
            sums[r][v] = V::AddI32(widened, start(r, v));
          }
        }
      }
      step += segment;
    } while (step < steps);
  }
}

template <class V, bool kPanel>
ORT_MLAS_INLINE inline typename V::F32 LoadScales(const Layout& layout, const std::byte* block, size_t lane) {
  if constexpr (kPanel) return V::LoadF32(block + layout.panel_scales_offset() + lane * sizeof(float));
  const std::byte* scales = block + layout.scales_offset;
  return layout.scale_type == ScaleType::kFp16 ? V::LoadHalf(scales + lane * 2) : V::LoadF32(scales + lane * 4);
}

// -(zero point * scale) of float zero points.
template <class V, bool kPanel>
ORT_MLAS_INLINE inline typename V::F32 LoadZeroPointOffset(const Layout& layout, const std::byte* block, size_t lane,
                                                           typename V::F32 scale) {
  if constexpr (kPanel) return V::LoadF32(block + layout.panel_zero_points_offset() + lane * sizeof(float));
  return V::Negate(V::Mul(V::LoadF32(block + layout.zero_points_offset + lane * sizeof(float)), scale));
}

// kRows rows times kVecs vectors of columns, the first of them at column `first`.
template <class V, unsigned kBits, unsigned kRows, unsigned kVecs, ZeroPointKind kZeroPoints, bool kPanel>
inline void Int8Tile(const Int8Args& args, size_t first) {
  const Int8Args t = args;  // copies, so that fields stay in registers
  const Layout layout = *t.layout;
  const size_t block_bytes = kPanel ? layout.panel_block_bytes : layout.block_bytes;
  constexpr unsigned kStripVecs = CodesAt<V, kVecs>::kStripVecs;
  const size_t first_lane = first % kStripColumns;
  const auto columns_from = [&](unsigned v) { return t.columns - first - v * V::kLanes; };
  const auto c_at = [&](unsigned r, unsigned v) { return t.c + r * t.ldc + first + v * V::kLanes; };
  typename V::F32 c[kRows][kVecs];
  ORT_MLAS_UNROLL
  for (unsigned r = 0; r < kRows; ++r) {
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      c[r][v] = t.first ? V::ZeroF32() : V::LoadPartial(c_at(r, v), columns_from(v));
    }
  }
  CodesAt<V, kVecs> block;
  ORT_MLAS_UNROLL
  for (unsigned i = 0; i < block.kStrips; ++i) block.strips[i] = t.b + (first / kStripColumns + i) * t.b_stride;
  const int8_t* a = t.a;
  const ActivationBlock* meta = t.meta;
  for (size_t index = 0; index < t.blocks; ++index, block.Advance(block_bytes), a += layout.block_len, ++meta) {
    typename V::I32 sums[kRows][kVecs];
    BlockSums<V, kBits, kRows, kVecs, kZeroPoints, kPanel>(t, layout, block, a, meta, first_lane, sums);
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      const std::byte* const strip_block = block.strips[v / kStripVecs];
      const size_t lane = first_lane + v % kStripVecs * V::kLanes;
      const auto b_scale = LoadScales<V, kPanel>(layout, strip_block, lane);
      ORT_MLAS_UNROLL
      for (unsigned r = 0; r < kRows; ++r) {
        const auto a_scale = V::LoadScale(meta[r * t.meta_stride]);
        c[r][v] = V::Fma(V::SumToFloat(sums[r][v]), V::Mul(a_scale, b_scale), c[r][v]);
      }
      if constexpr (kZeroPoints == ZeroPointKind::kFloat) {
        const auto offset = LoadZeroPointOffset<V, kPanel>(layout, strip_block, lane, b_scale);
        ORT_MLAS_UNROLL
        for (unsigned r = 0; r < kRows; ++r) {
          const ActivationBlock& m = meta[r * t.meta_stride];
          const auto a_sum = V::Mul(V::LoadScale(m), V::ToFloat(V::LoadTerm(m)));
          c[r][v] = V::Fma(a_sum, offset, c[r][v]);
        }
      }
    }
  }
  ORT_MLAS_UNROLL
  for (unsigned r = 0; r < kRows; ++r) {
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      if (t.bias != nullptr) {
        c[r][v] = V::Add(c[r][v], V::LoadPartial(t.bias + first + v * V::kLanes, columns_from(v)));
      }
      V::StorePartial(c_at(r, v), c[r][v], columns_from(v));
    }
  }
}

template <class V, unsigned kBits, unsigned kRows, unsigned kVecs, bool kPanel>
inline void Int8TileOfKind(const Int8Args& t, size_t first) {
  switch (t.layout->zero_point_kind) {
    case ZeroPointKind::kUniform:
      return Int8Tile<V, kBits, kRows, kVecs, ZeroPointKind::kUniform, kPanel>(t, first);
    case ZeroPointKind::kPerBlock:
      return Int8Tile<V, kBits, kRows, kVecs, ZeroPointKind::kPerBlock, kPanel>(t, first);
    case ZeroPointKind::kFloat:
      return Int8Tile<V, kBits, kRows, kVecs, ZeroPointKind::kFloat, kPanel>(t, first);
  }
}

// Tiles of kVecs vectors from column `lane` on, then narrower ones; vectors that are all padding are skipped.
template <class V, unsigned kBits, unsigned kRows, unsigned kVecs, bool kPanel>
inline void Int8Tiles(const Int8Args& t, size_t lane) {
  for (; lane + (kVecs - 1) * V::kLanes < t.columns; lane += kVecs * V::kLanes) {
    Int8TileOfKind<V, kBits, kRows, kVecs, kPanel>(t, lane);
  }
  if constexpr (kVecs > 1) Int8Tiles<V, kBits, kRows, kVecs / 2, kPanel>(t, lane);
}

// The entry of a row: the run-time properties become template arguments, once per call. A panel's planes are the same
// at every width: kBits is kPanelBits there.
template <class V, unsigned kBits, unsigned kRows, unsigned kVecs, bool kPanel>
void RunInt8(const Int8Args& t) {
  static_assert((kVecs & (kVecs - 1)) == 0 && kVecs * V::kLanes <= kMaxTileStrips * kStripColumns);
  Int8Tiles<V, kBits, kRows, kVecs, kPanel>(t, 0);
}

// Scales and zero points of a block for its panel.
template <class V>
inline void UnpackParameters(const std::byte* block, const Layout& layout, std::byte* panel) {
  ORT_MLAS_UNROLL
  for (size_t lane = 0; lane < kStripColumns; lane += V::kLanes) {
    const auto scale = LoadScales<V, false>(layout, block, lane);
    V::StoreF32(panel + layout.panel_scales_offset() + lane * sizeof(float), scale);
    std::byte* zero_points = panel + layout.panel_zero_points_offset() + lane * 4;
    if (layout.zero_point_kind == ZeroPointKind::kPerBlock) {
      V::StoreI32(zero_points, V::LoadBytes(block + layout.zero_points_offset + lane));
    } else if (layout.zero_point_kind == ZeroPointKind::kFloat) {
      V::StoreF32(zero_points, LoadZeroPointOffset<V, false>(layout, block, lane, scale));
    }
  }
}

// Strip -> int8 panel (layout.h).
template <class V, unsigned kBits>
void UnpackInt8Panel(const std::byte* b, size_t blocks, const Layout& layout, std::byte* panel) {
  using Strip = CodesAt<V, kStripColumns / V::kLanes>;
  constexpr unsigned kVecs = Strip::kStripVecs;
  constexpr unsigned kPlanes = kUnitPlanes<kBits>;
  for (size_t block = 0; block < blocks; ++block, b += layout.block_bytes, panel += layout.panel_block_bytes) {
    for (size_t unit = 0; unit < layout.units; ++unit) {
      typename V::Codes codes[kVecs];
      Strip{{b + unit * kUnitBytes}}.template Load<0>(codes);
      ForEach<kPlanes>([&]<unsigned kPlane>() ORT_MLAS_INLINE {
        std::byte* plane = panel + (kPlanes * unit + kPlane) * kUnitBytes;
        ORT_MLAS_UNROLL
        for (unsigned v = 0; v < kVecs; ++v) {
          V::StoreCodes(plane + v * V::kLanes * kColumnBytes, Plane<V, kBits, kPlane>(codes[v]));
        }
      });
    }
    UnpackParameters<V>(b, layout, panel);
  }
}

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
