// The CompInt8 tile, written once over an ISA's vocabulary V (qnbit/isa/): kRows rows of A times one strip.
//
// Per block and row: c = fma(float(sum of code * q, less the zero points), a_scale * b_scale, c), and for float zero
// points also c = fma(a_scale * float(sum q), -(zero_point * b_scale), c). Every tile, path and ISA does these same
// operations in the same order, so results agree to the bit.
//
// Included by one translation unit per ISA. Everything is in an unnamed namespace: were two units to share an
// instantiation, the linker could hand an ISA's code to a machine without it.
#pragma once

#include "qnbit/kernels.h"

namespace onnxruntime_mlas::qnbit {
namespace {

// Dot products of one fused block for one row at M = 1, where unpacking is the cost: two planes are masked in place
// (codes times 1 and times 4) from each of two shifted copies, so a unit costs one shift and four ANDs instead of
// three shifts and four ANDs; the accumulator of the codes times 4 is joined exactly by an arithmetic shift.
template <class V, unsigned kVecs>
inline void DotUnitsInPlace(const std::byte* units, size_t count, const int8_t* a, typename V::Acc (&low)[kVecs],
                            typename V::Acc (&high)[kVecs]) {
  for (size_t unit = 0; unit < count; ++unit, units += kUnitBytes, a += 4 * kQuadK) {
    const auto a0 = V::BroadcastQuad(a);
    const auto a1 = V::BroadcastQuad(a + kQuadK);
    const auto a2 = V::BroadcastQuad(a + 2 * kQuadK);
    const auto a3 = V::BroadcastQuad(a + 3 * kQuadK);
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      const auto codes = V::LoadCodes(units + v * V::kLanes * kColumnBytes);
      const auto shifted = V::template ShiftDown<4>(codes);
      low[v] = V::Dot(low[v], V::Mask(codes, 0x03), a0);
      high[v] = V::Dot(high[v], V::Mask(codes, 0x0C), a1);
      low[v] = V::Dot(low[v], V::Mask(shifted, 0x03), a2);
      high[v] = V::Dot(high[v], V::Mask(shifted, 0x0C), a3);
    }
  }
}

template <class V, unsigned kPlane>
inline typename V::Codes Plane(typename V::Codes codes) {
  if constexpr (kPlane == 0) {
    return V::Mask(codes, 0x03);
  } else {
    return V::Mask(V::template ShiftDown<2 * kPlane>(codes), 0x03);
  }
}

template <class V, unsigned kPlane, unsigned kRows, unsigned kVecs>
inline void DotPlane(const typename V::Codes (&codes)[kVecs], const int8_t* a, size_t a_stride,
                     typename V::Acc (&acc)[kRows][kVecs]) {
  typename V::Codes plane[kVecs];
  ORT_MLAS_UNROLL
  for (unsigned v = 0; v < kVecs; ++v) plane[v] = Plane<V, kPlane>(codes[v]);
  ORT_MLAS_UNROLL
  for (unsigned r = 0; r < kRows; ++r) {
    const auto quad = V::BroadcastQuad(a + r * a_stride + kPlane * kQuadK);
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) acc[r][v] = V::Dot(acc[r][v], plane[v], quad);
  }
}

template <class V, unsigned kRows, unsigned kVecs>
inline void DotUnits(const std::byte* units, size_t count, const int8_t* a, size_t a_stride,
                     typename V::Acc (&acc)[kRows][kVecs]) {
  for (size_t unit = 0; unit < count; ++unit, units += kUnitBytes, a += 4 * kQuadK) {
    typename V::Codes codes[kVecs];
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) codes[v] = V::LoadCodes(units + v * V::kLanes * kColumnBytes);
    DotPlane<V, 0>(codes, a, a_stride, acc);
    DotPlane<V, 1>(codes, a, a_stride, acc);
    DotPlane<V, 2>(codes, a, a_stride, acc);
    DotPlane<V, 3>(codes, a, a_stride, acc);
  }
}

// The same over an unpacked panel, whose planes follow one another in k order.
template <class V, unsigned kRows, unsigned kVecs>
inline void DotPanel(const std::byte* planes, size_t count, const int8_t* a, size_t a_stride,
                     typename V::Acc (&acc)[kRows][kVecs]) {
  for (size_t plane = 0; plane < count; ++plane, planes += kUnitBytes, a += kQuadK) {
    typename V::Codes codes[kVecs];
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) codes[v] = V::LoadCodes(planes + v * V::kLanes * kColumnBytes);
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) {
      const auto quad = V::BroadcastQuad(a + r * a_stride);
      ORT_MLAS_UNROLL
      for (unsigned v = 0; v < kVecs; ++v) acc[r][v] = V::Dot(acc[r][v], codes[v], quad);
    }
  }
}

// `units` units of a block from `b`, all rows, added to `acc`.
template <class V, unsigned kRows, unsigned kVecs, bool kPanel>
inline void DotSegment(const std::byte* b, size_t units, const int8_t* a, size_t a_stride,
                       typename V::Acc (&acc)[kRows][kVecs]) {
  if constexpr (kPanel) {
    DotPanel<V>(b, 4 * units, a, a_stride, acc);
  } else if constexpr (kRows == 1) {
    typename V::Acc high[kVecs];
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) high[v] = V::ZeroAcc();
    DotUnitsInPlace<V, kVecs>(b, units, a, acc[0], high);
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) acc[0][v] = V::AddQuarter(acc[0][v], high[v]);
  } else {
    DotUnits<V>(b, units, a, a_stride, acc);
  }
}

// Largest number of units whose dots an int16 accumulator holds (VPMADDUBSW). A dot of codes up to 3 adds at most
// 2 * 3 * 127 = 762 in magnitude, so 43 dots fit 32767; of codes times 4, 3048, so 10 do. A unit is four dots, two of
// them times 4 when masked in place.
template <unsigned kRows, bool kPanel>
constexpr size_t MaxSegmentUnits(size_t block_units) {
  constexpr bool kInPlace = kRows == 1 && !kPanel;
  constexpr size_t kLimit = kInPlace ? 4 : 8;
  static_assert(kInPlace ? kLimit * 2 * 3048 <= 32767 : kLimit * 4 * 762 <= 32767);
  return kLimit < block_units ? kLimit : block_units;
}

// What a block's sum starts from: the zero points' share.
template <class V, ZeroPointKind kZeroPoints, bool kPanel>
inline typename V::I32 Start(const Layout& layout, const std::byte* block, const ActivationBlock& meta, unsigned v) {
  const size_t lane = v * V::kLanes;
  if constexpr (kZeroPoints == ZeroPointKind::kUniform) {
    return V::BroadcastI32(&meta.term);
  } else if constexpr (kZeroPoints == ZeroPointKind::kPerBlock) {
    const auto zero_points = kPanel ? V::LoadI32(block + layout.panel_zero_points_offset() + lane * sizeof(int32_t))
                                    : V::LoadBytes(block + layout.zero_points_offset + lane);
    return V::MultiplySmall(zero_points, V::BroadcastI32(&meta.term));
  } else {
    return V::ZeroI32();
  }
}

template <class V, unsigned kRows, unsigned kVecs, ZeroPointKind kZeroPoints, bool kPanel>
inline void BlockSums(const Int8Args& t, const std::byte* block, const int8_t* a, const ActivationBlock* meta,
                      typename V::I32 (&sums)[kRows][kVecs]) {
  const Layout& layout = *t.layout;
  const auto start = [&](unsigned r, unsigned v) {
    return Start<V, kZeroPoints, kPanel>(layout, block, meta[r * t.meta_stride], v);
  };
  if constexpr (V::kInt32Dots) {
    // The dots accumulate onto the start: it costs nothing.
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) {
      ORT_MLAS_UNROLL
      for (unsigned v = 0; v < kVecs; ++v) sums[r][v] = start(r, v);
    }
    DotSegment<V, kRows, kVecs, kPanel>(block, layout.units, a, t.a_stride, sums);
  } else {
    const size_t segment = MaxSegmentUnits<kRows, kPanel>(layout.units);
    size_t unit = 0;
    do {
      typename V::Acc acc[kRows][kVecs];
      ORT_MLAS_UNROLL
      for (unsigned r = 0; r < kRows; ++r) {
        ORT_MLAS_UNROLL
        for (unsigned v = 0; v < kVecs; ++v) acc[r][v] = V::ZeroAcc();
      }
      DotSegment<V, kRows, kVecs, kPanel>(block + unit * (kPanel ? 4 * kUnitBytes : kUnitBytes), segment,
                                          a + unit * layout.unit_k, t.a_stride, acc);
      ORT_MLAS_UNROLL
      for (unsigned r = 0; r < kRows; ++r) {
        ORT_MLAS_UNROLL
        for (unsigned v = 0; v < kVecs; ++v) {
          const auto widened = V::Widen(acc[r][v]);
          if (unit != 0) {
            sums[r][v] = V::AddI32(sums[r][v], widened);
          } else if constexpr (kZeroPoints == ZeroPointKind::kFloat) {
            sums[r][v] = widened;
          } else {
            sums[r][v] = V::AddI32(widened, start(r, v));
          }
        }
      }
      unit += segment;
    } while (unit < layout.units);
  }
}

template <class V, bool kPanel>
inline typename V::F32 LoadScales(const Layout& layout, const std::byte* block, unsigned v) {
  const size_t lane = v * V::kLanes;
  if constexpr (kPanel) return V::LoadF32(block + layout.panel_scales_offset() + lane * sizeof(float));
  const std::byte* scales = block + layout.scales_offset + lane * layout.scale_bytes;
  return layout.scale_type == ScaleType::kFp16 ? V::LoadHalf(scales) : V::LoadF32(scales);
}

template <class V, unsigned kRows, unsigned kVecs, ZeroPointKind kZeroPoints, bool kPanel>
inline void Int8Tile(const Int8Args& t) {
  const Layout& layout = *t.layout;
  const size_t block_bytes = kPanel ? layout.panel_block_bytes : layout.block_bytes;
  typename V::F32 c[kRows][kVecs];
  ORT_MLAS_UNROLL
  for (unsigned r = 0; r < kRows; ++r) {
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      c[r][v] = t.first ? V::ZeroF32() : V::LoadPartial(t.c + r * t.ldc + v * V::kLanes, t.columns - v * V::kLanes);
    }
  }
  const std::byte* block = t.b;
  const int8_t* a = t.a;
  const ActivationBlock* meta = t.meta;
  for (size_t index = 0; index < t.blocks; ++index, block += block_bytes, a += layout.block_len, ++meta) {
    typename V::I32 sums[kRows][kVecs];
    BlockSums<V, kRows, kVecs, kZeroPoints, kPanel>(t, block, a, meta, sums);
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      const auto b_scale = LoadScales<V, kPanel>(layout, block, v);
      ORT_MLAS_UNROLL
      for (unsigned r = 0; r < kRows; ++r) {
        const auto a_scale = V::BroadcastF32(&meta[r * t.meta_stride].scale);
        c[r][v] = V::Fma(V::ToFloat(sums[r][v]), V::Mul(a_scale, b_scale), c[r][v]);
      }
      if constexpr (kZeroPoints == ZeroPointKind::kFloat) {
        const size_t lane_bytes = v * V::kLanes * sizeof(float);
        const auto offset =
            kPanel ? V::LoadF32(block + layout.panel_zero_points_offset() + lane_bytes)
                   : V::Negate(V::Mul(V::LoadF32(block + layout.zero_points_offset + lane_bytes), b_scale));
        ORT_MLAS_UNROLL
        for (unsigned r = 0; r < kRows; ++r) {
          const ActivationBlock& m = meta[r * t.meta_stride];
          const float a_sum = m.scale * static_cast<float>(m.term);
          c[r][v] = V::Fma(V::BroadcastF32(&a_sum), offset, c[r][v]);
        }
      }
    }
  }
  ORT_MLAS_UNROLL
  for (unsigned r = 0; r < kRows; ++r) {
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      const size_t columns = t.columns - v * V::kLanes;
      if (t.bias != nullptr) c[r][v] = V::Add(c[r][v], V::LoadPartial(t.bias + v * V::kLanes, columns));
      V::StorePartial(t.c + r * t.ldc + v * V::kLanes, c[r][v], columns);
    }
  }
}

// The entry of a row: the run-time properties become template arguments, once per call.
template <class V, unsigned kRows, bool kPanel>
void RunInt8(const Int8Args& t) {
  const auto run = [&]<unsigned kVecs>() {
    switch (t.layout->zero_point_kind) {
      case ZeroPointKind::kUniform:
        return Int8Tile<V, kRows, kVecs, ZeroPointKind::kUniform, kPanel>(t);
      case ZeroPointKind::kPerBlock:
        return Int8Tile<V, kRows, kVecs, ZeroPointKind::kPerBlock, kPanel>(t);
      case ZeroPointKind::kFloat:
        return Int8Tile<V, kRows, kVecs, ZeroPointKind::kFloat, kPanel>(t);
    }
  };
  constexpr unsigned kAllVecs = kStripColumns / V::kLanes;
  // Vectors that are all padding are skipped.
  if constexpr (kAllVecs == 2) {
    if (t.columns <= V::kLanes) return run.template operator()<1>();
  }
  run.template operator()<kAllVecs>();
}

// Strip -> int8 panel (layout.h).
template <class V>
void UnpackInt8Panel(const std::byte* b, size_t blocks, const Layout& layout, std::byte* panel) {
  constexpr unsigned kVecs = kStripColumns / V::kLanes;
  for (size_t block = 0; block < blocks; ++block, b += layout.block_bytes, panel += layout.panel_block_bytes) {
    for (size_t unit = 0; unit < layout.units; ++unit) {
      ORT_MLAS_UNROLL
      for (unsigned v = 0; v < kVecs; ++v) {
        const size_t lane_bytes = v * V::kLanes * kColumnBytes;
        const auto codes = V::LoadCodes(b + unit * kUnitBytes + lane_bytes);
        std::byte* planes = panel + unit * 4 * kUnitBytes + lane_bytes;
        V::StoreCodes(planes, Plane<V, 0>(codes));
        V::StoreCodes(planes + kUnitBytes, Plane<V, 1>(codes));
        V::StoreCodes(planes + 2 * kUnitBytes, Plane<V, 2>(codes));
        V::StoreCodes(planes + 3 * kUnitBytes, Plane<V, 3>(codes));
      }
    }
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      const size_t lane = v * V::kLanes;
      const auto scale = LoadScales<V, false>(layout, b, v);
      V::StoreF32(panel + layout.panel_scales_offset() + lane * sizeof(float), scale);
      std::byte* zero_points = panel + layout.panel_zero_points_offset() + lane * 4;
      if (layout.zero_point_kind == ZeroPointKind::kPerBlock) {
        V::StoreI32(zero_points, V::LoadBytes(b + layout.zero_points_offset + lane));
      } else if (layout.zero_point_kind == ZeroPointKind::kFloat) {
        const auto zero_point = V::LoadF32(b + layout.zero_points_offset + lane * sizeof(float));
        V::StoreF32(zero_points, V::Negate(V::Mul(zero_point, scale)));
      }
    }
  }
}

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
