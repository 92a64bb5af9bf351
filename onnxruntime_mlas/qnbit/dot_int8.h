// Dot products of a block for the CompInt8 tiles (tile_int8.h), over an ISA's vocabulary V: unpacking codes in
// registers, or reading a panel's, and adding up in as many accumulators as keep the dot instruction busy.
#pragma once

#include <algorithm>

#include "qnbit/kernels.h"

namespace onnxruntime_mlas::qnbit {
namespace {

inline constexpr size_t kStepK = 16;
inline constexpr size_t kLongSteps = 4;  // of a block, from which on more accumulators pay
inline constexpr unsigned kPanelBits = 0;

template <class V, unsigned kUnits>
constexpr unsigned kStepsAtOnce = V::kUnitsAtOnce > kUnits ? V::kUnitsAtOnce / kUnits : 1;

// Plane p of a unit: 16 columns x the codes of k = 4p + j. Of 8 bits, codes as V::Dot takes them: less V::kCodeOffset.
template <class V, unsigned kBits, unsigned kPlane>
ORT_MLAS_INLINE inline typename V::Codes Plane(typename V::Codes codes) {
  constexpr unsigned kShift = kBits * kPlane;
  constexpr unsigned kMask = (1u << kBits) - 1;
  if constexpr (kBits == 8) {
    if constexpr (V::kCodeOffset == 0) return V::FlipTopBits(codes);
    return codes;
  } else if constexpr (kPlane == 0) {
    return V::Mask(codes, kMask);
  } else if constexpr (kShift + kBits == 8 && V::kShiftsBytes) {
    return V::template ShiftDown<kShift>(codes);
  } else {
    return V::Mask(V::template ShiftDown<kShift>(codes), kMask);
  }
}

// The same, cheaper where a plane is masked in place: then codes come out times 2^(kBits * set[kPlane]).
template <class V, unsigned kBits, bool kLong, unsigned kPlane>
ORT_MLAS_INLINE inline typename V::Codes PlaneInPlace(typename V::Codes codes) {
  constexpr InPlaceRule kRule = V::InPlace(kBits, kLong);
  constexpr int kShift = kRule.shift[kPlane];
  constexpr unsigned kLowBit = kBits * kPlane - kShift;
  constexpr unsigned kMask = ((1u << kBits) - 1) << kLowBit;
  static_assert(kLowBit == kBits * kRule.set[kPlane]);
  if constexpr (kShift + kBits == 8 && V::kShiftsBytes) {
    return V::template ShiftDown<kShift>(codes);
  } else if constexpr (kShift == 0) {
    return V::Mask(codes, kMask);
  } else {
    return V::Mask(V::template ShiftDown<kShift>(codes), kMask);
  }
}

// Where the codes of kVecs neighbouring vectors of columns lie: in one strip (or its panel) or several.
template <class V, unsigned kVecs>
struct CodesAt {
  static constexpr unsigned kStripVecs = kStripColumns / V::kLanes;
  static constexpr unsigned kStrips = kVecs > kStripVecs ? kVecs / kStripVecs : 1;
  const std::byte* strips[kStrips];

  template <size_t kOffset>
  ORT_MLAS_INLINE void Load(typename V::Codes (&codes)[kVecs]) const {
    ForEach<kVecs>([&]<unsigned kV>() ORT_MLAS_INLINE {
      codes[kV] =
          V::template LoadCodesAt<kOffset + kV % kStripVecs * V::kLanes * kColumnBytes>(strips[kV / kStripVecs]);
    });
  }
  ORT_MLAS_INLINE void Advance(size_t bytes) {
    ORT_MLAS_UNROLL
    for (unsigned i = 0; i < kStrips; ++i) strips[i] += bytes;
  }
  ORT_MLAS_INLINE CodesAt After(size_t bytes) const {
    CodesAt moved = *this;
    moved.Advance(bytes);
    return moved;
  }
};

// Four neighbouring k of activations, to be multiplied with kVecs vectors of codes.
template <class V, unsigned kVecs, unsigned kQuad>
ORT_MLAS_INLINE inline auto QuadFor(const typename V::Activations& activations) {
  if constexpr (requires { V::template QuadOf<kQuad, kVecs>(activations); }) {
    return V::template QuadOf<kQuad, kVecs>(activations);
  } else {
    return V::template Quad<kQuad>(activations);
  }
}

// Tiles go through a block in steps of 16 k, which every block is made of: the units that hold them, or four planes of
// a panel.
template <unsigned kBits>
constexpr unsigned kStepUnits = kBits / 2;
template <unsigned kBits>
constexpr unsigned kUnitPlanes = 8 / kBits;

// step.operator()<i>() for the steps of a block, up to kAtOnce (a power of two) at a time: i < kAtOnce is the step's
// place since `advance` last moved on by kAtOnce steps.
template <unsigned kAtOnce, class Step, class Advance>
ORT_MLAS_INLINE inline void ForSteps(size_t count, Step&& step, Advance&& advance) {
  if constexpr (kAtOnce > 1) {
    if (count < kAtOnce) return ForSteps<kAtOnce / 2>(count, step, advance);
  }
  for (size_t done = 0; done < count; done += kAtOnce) {
    ForEach<kAtOnce>(step);
    advance(kAtOnce);
  }
}

// Dot products of one fused block for one row at M = 1, where unpacking is the cost: planes are masked in place as the
// ISA's vocabulary says, into one set of accumulators per power of two, which are joined exactly at the block's end.
template <class V, unsigned kBits, bool kLong, unsigned kVecs, unsigned kAccs>
ORT_MLAS_INLINE inline void DotStepsInPlace(CodesAt<V, kVecs> units, size_t count, const int8_t* a,
                                            typename V::Acc (&accs)[kAccs][kVecs]) {
  constexpr unsigned kUnits = kStepUnits<kBits>;
  constexpr unsigned kPlanes = kUnitPlanes<kBits>;
  constexpr InPlaceRule kRule = V::InPlace(kBits, kLong);
  const auto step = [&]<unsigned kStep>() ORT_MLAS_INLINE {
    const auto activations = V::template LoadActivations<kStep * kStepK>(a);
    ForEach<kUnits>([&]<unsigned kUnit>() ORT_MLAS_INLINE {
      typename V::Codes codes[kVecs];
      units.template Load<(kStep * kUnits + kUnit) * kUnitBytes>(codes);
      ForEach<kPlanes>([&]<unsigned kPlane>() ORT_MLAS_INLINE {
        const auto quad = QuadFor<V, kVecs, kUnit * kPlanes + kPlane>(activations);
        auto& acc = accs[kUnit * kRule.sets % kAccs + kRule.set[kPlane]];
        ORT_MLAS_UNROLL
        for (unsigned v = 0; v < kVecs; ++v)
          acc[v] = V::Dot(acc[v], PlaneInPlace<V, kBits, kLong, kPlane>(codes[v]), quad);
      });
    });
  };
  ForSteps<kStepsAtOnce<V, kUnits>>(count, step, [&](size_t by) ORT_MLAS_INLINE {
    units.Advance(by * kUnits * kUnitBytes);
    a += by * kStepK;
  });
}

// The same for kRows rows, which share the unpacking; the planes of a panel follow one another in k order. Quads of k
// take turns in kChains accumulators.
template <class V, unsigned kBits, unsigned kRows, unsigned kVecs, bool kPanel, unsigned kChains>
ORT_MLAS_INLINE inline void DotSteps(CodesAt<V, kVecs> b, size_t count, const int8_t* a, size_t a_stride,
                                     typename V::Acc (&acc)[kChains][kRows][kVecs]) {
  constexpr unsigned kLoads = kPanel ? 4 : kStepUnits<kBits>;  // groups of kVecs vectors
  constexpr unsigned kPlanes = 4 / kLoads;                     // of each
  const int8_t* rows[kRows];
  ORT_MLAS_UNROLL
  for (unsigned r = 0; r < kRows; ++r) rows[r] = a + r * a_stride;
  const auto step = [&]<unsigned kStep>() ORT_MLAS_INLINE {
    typename V::Activations activations[kRows];
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) activations[r] = V::template LoadActivations<kStep * kStepK>(rows[r]);
    const auto from = kPanel ? b.After(kStep * kLoads * kUnitBytes) : b;
    ForEach<kLoads>([&]<unsigned kLoad>() ORT_MLAS_INLINE {
      typename V::Codes codes[kVecs];
      from.template Load<((kPanel ? 0 : kStep * kLoads) + kLoad) * kUnitBytes>(codes);
      ForEach<kPlanes>([&]<unsigned kPlane>() ORT_MLAS_INLINE {
        typename V::Codes plane[kVecs];
        ORT_MLAS_UNROLL
        for (unsigned v = 0; v < kVecs; ++v) {
          if constexpr (kPanel) {
            plane[v] = codes[v];
          } else {
            plane[v] = Plane<V, kBits, kPlane>(codes[v]);
          }
        }
        ORT_MLAS_UNROLL
        for (unsigned r = 0; r < kRows; ++r) {
          constexpr unsigned kQuad = kLoad * kPlanes + kPlane;
          const auto quad = QuadFor<V, kVecs, kQuad>(activations[r]);
          auto& chain = acc[kQuad % kChains][r];
          ORT_MLAS_UNROLL
          for (unsigned v = 0; v < kVecs; ++v) chain[v] = V::Dot(chain[v], plane[v], quad);
        }
      });
    });
  };
  ForSteps<kStepsAtOnce<V, kPanel ? 1 : kLoads>>(count, step, [&](size_t by) ORT_MLAS_INLINE {
    b.Advance(by * kLoads * kUnitBytes);
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) rows[r] += by * kStepK;
  });
}

// Over a panel one plane at a time, where every quad of A is read from memory on its own: four at a time ran 8 to 16 %
// slower on AVX2.
template <class V, unsigned kRows, unsigned kVecs>
ORT_MLAS_INLINE inline void DotPanelPlanes(CodesAt<V, kVecs> planes, size_t count, const int8_t* a, size_t a_stride,
                                           typename V::Acc (&acc)[kRows][kVecs]) {
  for (size_t plane = 0; plane < count; ++plane, planes.Advance(kUnitBytes), a += kQuadK) {
    typename V::Codes codes[kVecs];
    planes.template Load<0>(codes);
    ORT_MLAS_UNROLL
    for (unsigned r = 0; r < kRows; ++r) {
      const auto quad = QuadFor<V, kVecs, 0>(V::template LoadActivations<0>(a + r * a_stride));
      ORT_MLAS_UNROLL
      for (unsigned v = 0; v < kVecs; ++v) acc[r][v] = V::Dot(acc[r][v], codes[v], quad);
    }
  }
}

template <class V, unsigned kBits, bool kLong, unsigned kVecs>
ORT_MLAS_INLINE inline void DotSegmentInPlace(const CodesAt<V, kVecs>& b, size_t steps, const int8_t* a,
                                              typename V::Acc (&acc)[kVecs]) {
  constexpr InPlaceRule kRule = V::InPlace(kBits, kLong);
  constexpr unsigned kAccs = kRule.alternate ? 2 * kRule.sets : kRule.sets;
  typename V::Acc accs[kAccs][kVecs];
  ORT_MLAS_UNROLL
  for (unsigned v = 0; v < kVecs; ++v) {
    accs[0][v] = acc[v];
    ORT_MLAS_UNROLL
    for (unsigned i = 1; i < kAccs; ++i) accs[i][v] = V::ZeroAcc();
  }
  DotStepsInPlace<V, kBits, kLong, kVecs, kAccs>(b, steps, a, accs);
  ORT_MLAS_UNROLL
  for (unsigned v = 0; v < kVecs; ++v) {
    if constexpr (kRule.alternate) {
      ORT_MLAS_UNROLL
      for (unsigned set = 0; set < kRule.sets; ++set) accs[set][v] = V::AddI32(accs[set][v], accs[kRule.sets + set][v]);
    }
    acc[v] = accs[0][v];
    ForEach<kRule.sets - 1>([&]<unsigned kI>() ORT_MLAS_INLINE {
      acc[v] = V::template AddShifted<kBits*(kI + 1)>(acc[v], accs[kI + 1][v]);
    });
  }
}

// Accumulators per row and vector such that dots needn't wait for one another.
template <class V, unsigned kRows, unsigned kVecs>
constexpr unsigned kDotChains = V::kDotsInFlight / (kRows * kVecs) > 4   ? 4
                                : V::kDotsInFlight / (kRows * kVecs) > 1 ? V::kDotsInFlight / (kRows * kVecs)
                                                                         : 1;

template <class V, unsigned kBits, unsigned kRows, unsigned kVecs, bool kPanel, unsigned kChains>
ORT_MLAS_INLINE inline void DotInChains(const CodesAt<V, kVecs>& b, size_t steps, const int8_t* a, size_t a_stride,
                                        typename V::Acc (&acc)[kRows][kVecs]) {
  typename V::Acc chains[kChains][kRows][kVecs];
  ORT_MLAS_UNROLL
  for (unsigned r = 0; r < kRows; ++r) {
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      chains[0][r][v] = acc[r][v];
      ORT_MLAS_UNROLL
      for (unsigned i = 1; i < kChains; ++i) chains[i][r][v] = V::ZeroAcc();
    }
  }
  DotSteps<V, kBits, kRows, kVecs, kPanel, kChains>(b, steps, a, a_stride, chains);
  ORT_MLAS_UNROLL
  for (unsigned r = 0; r < kRows; ++r) {
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      acc[r][v] = chains[0][r][v];
      if constexpr (kChains > 1) {
        ForEach<kChains - 1>([&]<unsigned kI>()
                                 ORT_MLAS_INLINE { acc[r][v] = V::AddI32(acc[r][v], chains[kI + 1][r][v]); });
      }
    }
  }
}

// `steps` steps of a block from `b`, all rows, added to `acc`.
template <class V, unsigned kBits, unsigned kRows, unsigned kVecs, bool kPanel>
ORT_MLAS_INLINE inline void DotSegment(const CodesAt<V, kVecs>& b, size_t steps, const int8_t* a, size_t a_stride,
                                       typename V::Acc (&acc)[kRows][kVecs]) {
  if constexpr (kPanel && V::kQuadsFromMemory) return DotPanelPlanes<V>(b, 4 * steps, a, a_stride, acc);
  // Joining several accumulators takes operations of its own, which must be worth it.
  if constexpr (kRows == 1 && !kPanel && V::InPlace(kBits, false).sets > 1) {
    if (steps >= kLongSteps) return DotSegmentInPlace<V, kBits, true>(b, steps, a, acc[0]);
    if (steps > 1) return DotSegmentInPlace<V, kBits, false>(b, steps, a, acc[0]);
  }
  if (steps < kLongSteps) return DotInChains<V, kBits, kRows, kVecs, kPanel, 1>(b, steps, a, a_stride, acc);
  DotInChains<V, kBits, kRows, kVecs, kPanel, kDotChains<V, kRows, kVecs>>(b, steps, a, a_stride, acc);
}

// Largest number of steps whose dots an int16 accumulator holds (VPMADDUBSW; SMLAL, where two accumulators add up when
// widened). A dot adds at most 2 * code * 127 in magnitude: 762 at 2 bits, so 43 dots fit 32767, and 3810 at 4 bits, so
// 8 do. In place at 2 bits, two of a step's four dots are of codes times 4, 3048 each, in a set of their own.
template <bool kInPlace>
inline size_t MaxSegmentSteps(size_t bits, size_t block_steps) {
  constexpr size_t kLimit2 = kInPlace ? 4 : 8, kLimit4 = 2;  // powers of two: whole segments make up a block
  static_assert(kInPlace ? kLimit2 * 2 * 3048 <= 32767 : kLimit2 * 4 * 762 <= 32767);
  static_assert(kLimit4 * 4 * 3810 <= 32767);
  return std::min(bits == 2 ? kLimit2 : kLimit4, block_steps);
}

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
