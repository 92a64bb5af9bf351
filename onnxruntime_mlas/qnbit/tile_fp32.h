// The CompFp32 tiles, written once over an ISA's vocabulary V (qnbit/isa/). A weight is w = (code - zero_point) *
// scale, both operations in fp32; c = fma(a, w, c) in ascending k. Every tile and path does just that, so results agree
// to the bit, and NaN and infinities in A come out as IEEE 754 says.
//
// In a 32-bit lane of a unit, the code of k = 4p + j is at bit 8j + bits * p. Masked in place and OR-ed into the
// mantissa of a power of two, it is the float 2^(23 - bit) + code, exactly; one subtraction takes the power and a
// uniform zero point away. Bits 16 and up would reach the exponent, so they are read from a copy shifted down by 16.
#pragma once

#include <algorithm>

#include "qnbit/kernels.h"

namespace onnxruntime_mlas::qnbit {
namespace {

// Zero points and scales of one block for one vector of columns.
template <class V>
struct BlockParameters {
  typename V::F32 scale;
  typename V::F32 zero_point;  // unused when uniform: then Offsets holds it
};

template <class V, ZeroPointKind kZeroPoints>
inline BlockParameters<V> LoadParameters(const Layout& layout, const std::byte* block, size_t lane) {
  BlockParameters<V> parameters;
  const std::byte* scales = block + layout.scales_offset + lane * layout.scale_bytes;
  parameters.scale = layout.scale_type == ScaleType::kFp16 ? V::LoadHalf(scales) : V::LoadF32(scales);
  if constexpr (kZeroPoints == ZeroPointKind::kPerBlock) {
    parameters.zero_point = V::ToFloat(V::LoadBytes(block + layout.zero_points_offset + lane));
  } else if constexpr (kZeroPoints == ZeroPointKind::kFloat) {
    parameters.zero_point = V::LoadF32(block + layout.zero_points_offset + lane * sizeof(float));
  } else {
    parameters.zero_point = V::ZeroF32();
  }
  return parameters;
}

// What to subtract from 2^(23 - bit) + code, for the even bits below 16. With a uniform zero point the difference is
// code - zero_point, else the code. All are small integers: nothing is rounded.
struct Offsets {
  float values[8];

  template <ZeroPointKind kZeroPoints>
  static Offsets For(float uniform_zero_point) {
    Offsets offsets;
    for (unsigned i = 0; i < 8; ++i) {
      const float power = static_cast<float>(1u << (23 - 2 * i));
      offsets.values[i] = power + (kZeroPoints == ZeroPointKind::kUniform ? uniform_zero_point : 0.0f);
    }
    return offsets;
  }
};

template <unsigned kBits>
constexpr unsigned kUnitK = 4 * (8 / kBits);

template <unsigned kBits>
constexpr unsigned CodeBit(unsigned k) {
  return 8 * (k % 4) + kBits * (k / 4);
}

// The k of a unit for one vector of columns.
template <class V, unsigned kBits, ZeroPointKind kZeroPoints>
struct UnitCodes {
  typename V::I32 low;   // unsigned codes
  typename V::I32 high;  // shifted down by 16

  explicit UnitCodes(const std::byte* from) : low(Load(from)), high(V::template ShiftLanes<16>(low)) {}

  template <unsigned kK>
  typename V::F32 Weight(const Offsets& offsets, const BlockParameters<V>& parameters) const {
    constexpr unsigned kFrom = CodeBit<kBits>(kK);
    constexpr unsigned kBit = kFrom % 16;
    return Dequantize(V::template CodePlusPower<kBit, kBits>(kFrom < 16 ? low : high), offsets.values[kBit / 2],
                      parameters);
  }
  // The same for k known at run time, for the last k of a row.
  typename V::F32 Weight(unsigned k, const Offsets& offsets, const BlockParameters<V>& parameters) const {
    return Dequantize(V::template CodePlusPower<0, kBits>(V::ShiftLanesBy(low, CodeBit<kBits>(k))), offsets.values[0],
                      parameters);
  }

 private:
  static typename V::I32 Load(const std::byte* from) {
    const auto stored = V::LoadI32(from);
    if constexpr (kBits == 8) return V::FlipTopBits(stored);
    return stored;
  }
  static typename V::F32 Dequantize(typename V::F32 code_plus_power, const float& offset,
                                    const BlockParameters<V>& parameters) {
    auto code = V::Sub(code_plus_power, V::BroadcastF32(&offset));
    if constexpr (kZeroPoints != ZeroPointKind::kUniform) code = V::Sub(code, parameters.zero_point);
    return V::Mul(code, parameters.scale);
  }
};

template <class V, unsigned kBits, unsigned kRows, unsigned kVecs, ZeroPointKind kZeroPoints>
inline void Fp32Fused(const Fp32FusedArgs& t, size_t first_vec) {
  constexpr unsigned kVecsPerStrip = kStripColumns / V::kLanes;
  const Layout& layout = *t.layout;
  const Offsets offsets = Offsets::For<kZeroPoints>(t.uniform_zero_point);
  const size_t first_column = first_vec * V::kLanes;
  const std::byte* strips[kVecs];
  typename V::F32 c[kRows][kVecs];
  ORT_MLAS_UNROLL
  for (unsigned v = 0; v < kVecs; ++v) {
    strips[v] = t.b + (first_vec + v) / kVecsPerStrip * layout.strip_bytes;
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) c[r][v] = V::ZeroF32();
  }
  const auto lane = [&](unsigned v) { return (first_vec + v) % kVecsPerStrip * V::kLanes; };
  for (size_t index = 0, k = 0; k < t.k; ++index) {
    const size_t block_offset = index * layout.block_bytes;
    BlockParameters<V> parameters[kVecs];
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      parameters[v] = LoadParameters<V, kZeroPoints>(layout, strips[v] + block_offset, lane(v));
    }
    for (size_t unit = 0; unit < layout.units && k < t.k; ++unit, k += kUnitK<kBits>) {
      const auto unit_offset = [&](unsigned v) { return block_offset + unit * kUnitBytes + lane(v) * kColumnBytes; };
      const auto multiply = [&](size_t at, auto weight) {
        typename V::Scalar a[kRows];
        ORT_MLAS_UNROLL
        for (unsigned r = 0; r < kRows; ++r) a[r] = V::LoadScalar(t.a + r * t.lda + at);
        ORT_MLAS_UNROLL
        for (unsigned v = 0; v < kVecs; ++v) {
          const auto w = weight(UnitCodes<V, kBits, kZeroPoints>(strips[v] + unit_offset(v)), parameters[v]);
          ORT_MLAS_UNROLL
          for (unsigned r = 0; r < kRows; ++r) c[r][v] = V::Fma(a[r], w, c[r][v]);
        }
      };
      if (t.k - k >= kUnitK<kBits>) {
        ForEach<kUnitK<kBits>>([&]<unsigned kK>() ORT_MLAS_INLINE {
          multiply(k + kK, [&](auto codes, const auto& p) { return codes.template Weight<kK>(offsets, p); });
        });
      } else {
        for (unsigned i = 0; i < t.k - k; ++i) {
          multiply(k + i, [&](auto codes, const auto& p) { return codes.Weight(i, offsets, p); });
        }
      }
    }
  }
  ORT_MLAS_UNROLL
  for (unsigned v = 0; v < kVecs; ++v) {
    const size_t column = first_column + v * V::kLanes;
    const size_t columns = t.columns - column;
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) {
      if (t.bias != nullptr) c[r][v] = V::Add(c[r][v], V::LoadPartial(t.bias + column, columns));
      V::StorePartial(t.c + r * t.ldc + column, c[r][v], columns);
    }
  }
}

// kVecs vectors of columns at a time, so that enough independent chains hide the multiply-add's latency.
template <class V, unsigned kBits, unsigned kRows, unsigned kVecs>
void RunFp32Fused(const Fp32FusedArgs& t) {
  const auto run = [&]<ZeroPointKind kZeroPoints>() {
    const size_t vecs = (t.columns + V::kLanes - 1) / V::kLanes;
    size_t vec = 0;
    for (; vec + kVecs <= vecs; vec += kVecs) Fp32Fused<V, kBits, kRows, kVecs, kZeroPoints>(t, vec);
    for (; vec < vecs; ++vec) Fp32Fused<V, kBits, kRows, 1, kZeroPoints>(t, vec);
  };
  switch (t.layout->zero_point_kind) {
    case ZeroPointKind::kUniform:
      return run.template operator()<ZeroPointKind::kUniform>();
    case ZeroPointKind::kPerBlock:
      return run.template operator()<ZeroPointKind::kPerBlock>();
    case ZeroPointKind::kFloat:
      return run.template operator()<ZeroPointKind::kFloat>();
  }
}

template <class V, unsigned kRows, unsigned kVecs>
inline void Fp32Panel(const Fp32PanelArgs& t) {
  typename V::F32 c[kRows][kVecs];
  ORT_MLAS_UNROLL
  for (unsigned r = 0; r < kRows; ++r) {
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      c[r][v] = t.first ? V::ZeroF32() : V::LoadPartial(t.c + r * t.ldc + v * V::kLanes, t.columns - v * V::kLanes);
    }
  }
  const float* panel = t.panel;
  for (size_t k = 0; k < t.k; ++k, panel += t.panel_stride) {
    typename V::F32 w[kVecs];
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) w[v] = V::LoadF32(reinterpret_cast<const std::byte*>(panel + v * V::kLanes));
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) {
      const auto a = V::LoadScalar(t.a + r * t.lda + k);
      ORT_MLAS_UNROLL
      for (unsigned v = 0; v < kVecs; ++v) c[r][v] = V::Fma(a, w[v], c[r][v]);
    }
  }
  ORT_MLAS_UNROLL
  for (unsigned v = 0; v < kVecs; ++v) {
    const size_t columns = t.columns - v * V::kLanes;
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) {
      if (t.bias != nullptr) c[r][v] = V::Add(c[r][v], V::LoadPartial(t.bias + v * V::kLanes, columns));
      V::StorePartial(t.c + r * t.ldc + v * V::kLanes, c[r][v], columns);
    }
  }
}

// A panel is kVecs vectors wide; those that are all padding must be skipped: no part of them exists in C.
template <class V, unsigned kRows, unsigned kVecs>
void RunFp32Panel(const Fp32PanelArgs& t) {
  if constexpr (kVecs > 1) {
    if (t.columns <= (kVecs - 1) * V::kLanes) return RunFp32Panel<V, kRows, kVecs - 1>(t);
  }
  Fp32Panel<V, kRows, kVecs>(t);
}

template <class V, unsigned kBits, ZeroPointKind kZeroPoints>
inline void UnpackFp32(const std::byte* strip, const Layout& layout, float uniform_zero_point, size_t k_begin,
                       size_t k_end, float* panel, size_t stride) {
  constexpr unsigned kVecs = kStripColumns / V::kLanes;
  const Offsets offsets = Offsets::For<kZeroPoints>(uniform_zero_point);
  for (size_t k = k_begin; k < k_end; k += kUnitK<kBits>, panel += kUnitK<kBits> * stride) {
    const std::byte* block = strip + layout.block_offset(0, k / layout.block_len);
    const std::byte* unit = block + k % layout.block_len / kUnitK<kBits> * kUnitBytes;
    const unsigned valid = static_cast<unsigned>(std::min<size_t>(k_end - k, kUnitK<kBits>));
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      const size_t lane = v * V::kLanes;
      const auto parameters = LoadParameters<V, kZeroPoints>(layout, block, lane);
      const UnitCodes<V, kBits, kZeroPoints> codes(unit + lane * kColumnBytes);
      const auto store = [&](unsigned i, typename V::F32 weight) {
        V::StoreF32(reinterpret_cast<std::byte*>(panel + i * stride + lane), weight);
      };
      if (valid == kUnitK<kBits>) {
        ForEach<kUnitK<kBits>>([&]<unsigned kK>()
                                   ORT_MLAS_INLINE { store(kK, codes.template Weight<kK>(offsets, parameters)); });
      } else {
        for (unsigned i = 0; i < valid; ++i) store(i, codes.Weight(i, offsets, parameters));
      }
    }
  }
}

template <class V, unsigned kBits>
void UnpackFp32Panel(const std::byte* strip, const Layout& layout, float uniform_zero_point, size_t k_begin,
                     size_t k_end, float* panel, size_t stride) {
  switch (layout.zero_point_kind) {
    case ZeroPointKind::kUniform:
      return UnpackFp32<V, kBits, ZeroPointKind::kUniform>(strip, layout, uniform_zero_point, k_begin, k_end, panel,
                                                           stride);
    case ZeroPointKind::kPerBlock:
      return UnpackFp32<V, kBits, ZeroPointKind::kPerBlock>(strip, layout, uniform_zero_point, k_begin, k_end, panel,
                                                            stride);
    case ZeroPointKind::kFloat:
      return UnpackFp32<V, kBits, ZeroPointKind::kFloat>(strip, layout, uniform_zero_point, k_begin, k_end, panel,
                                                         stride);
  }
}

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
