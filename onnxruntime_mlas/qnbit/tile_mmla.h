// The CompInt8 tile on I8MM: SMMLA multiplies a 2 x 8 operand (two rows of A x 8 k) by another (two columns x 8 k) and
// adds the 2 x 2 products to one accumulator.
//
// Where 8 k come from. Joining the same 4 columns of two neighbouring units by ZIP gives two columns with 8 bytes each,
// whose plane p is an operand as it stands:
//
//   unit u      c0 c1 c2 c3   (4 bytes each: 4 planes of k = 4p + j)
//   unit u + 1  c0' c1' c2' c3'
//   ZIP1        c0 c0' c1 c1'      ZIP2   c2 c2' c3 c3'
//
// so the 8 k of plane p are 4p + j of unit u, then 4p + j of unit u + 1. A is quantised in that order (ArrangeRows).
// At 2 bits a block of 16 k has one unit: it is joined with itself shifted down by 2 bits, which gives 8 neighbouring
// k.
//
// Sums, scales and C stay in the 2 x 2 order [row 0: columns 0, 1 | row 1: columns 0, 1] until C is stored. The
// arithmetic is that of tile_int8.h, so results agree to the bit.
#pragma once

#include "qnbit/isa/neon_vector.h"
#include "qnbit/kernels.h"
#include "qnbit/tile_int8.h"

namespace onnxruntime_mlas::qnbit {
namespace {

struct NeonMmla : NeonVector {
  static constexpr int32_t kCodeOffset = 0;
};
// SMMLA takes signed codes: 8 bits as they are packed.
struct NeonMmlaBytes : NeonVector {
  static constexpr int32_t kCodeOffset = 128;
};

constexpr size_t kOctetK = 8;                                 // k per matrix instruction
constexpr size_t kPanelOctetBytes = kStripColumns * kOctetK;  // of a panel (layout.h)

template <class T>
inline T Zip1Words(T x, T y) {
  return T(vzip1q_u32(uint32x4_t(x), uint32x4_t(y)));
}
template <class T>
inline T Zip2Words(T x, T y) {
  return T(vzip2q_u32(uint32x4_t(x), uint32x4_t(y)));
}
template <class T>
inline T LowerHalves(T x, T y) {
  return T(vzip1q_u64(uint64x2_t(x), uint64x2_t(y)));
}
template <class T>
inline T UpperHalves(T x, T y) {
  return T(vzip2q_u64(uint64x2_t(x), uint64x2_t(y)));
}

// 4 columns, from byte kOffset of a strip's units on, with 8 bytes of codes each: all planes of two units, or (one
// unit, of 2 bits) two.
template <class N, unsigned kBits, bool kOneUnit>
struct Joined {
  static constexpr size_t kUnits = kOneUnit ? 1 : 2;
  static constexpr unsigned kOctets = kOneUnit ? 2 : kUnitPlanes<kBits>;
  uint8x16_t codes[2];  // columns 0 and 1, 2 and 3

  template <size_t kOffset>
  ORT_MLAS_INLINE static Joined Load(const std::byte* units) {
    const auto first = N::template LoadCodesAt<kOffset>(units);
    if constexpr (kOneUnit) return Of(first, N::template ShiftDown<2>(first));
    return Of(first, N::template LoadCodesAt<kOffset + kUnitBytes>(units));
  }
  template <unsigned kOctet>
  ORT_MLAS_INLINE uint8x16_t Operand(unsigned pair) const {
    return Plane<N, kBits, kOneUnit ? 2 * kOctet : kOctet>(codes[pair]);
  }

 private:
  ORT_MLAS_INLINE static Joined Of(uint8x16_t first, uint8x16_t second) {
    return {{Zip1Words(first, second), Zip2Words(first, second)}};
  }
};

// kRows rows: pairs of them, or one that stands in both halves of its operand.
template <unsigned kRows>
struct RowPairs {
  static constexpr unsigned kCount = kRows == 1 ? 1 : kRows / 2;
  static constexpr size_t kRowsInOperand = kRows == 1 ? 1 : 2;
  static constexpr size_t kOperandBytes = kRowsInOperand * kOctetK;

  template <size_t kOctet>
  ORT_MLAS_INLINE static int8x16_t Load(const int8_t* a) {
    if constexpr (kRows == 1) return vreinterpretq_s8_s64(vld1q_dup_s64(reinterpret_cast<const int64_t*>(a) + kOctet));
    return NeonVector::LoadActivations<kOctet * kOperandBytes>(a);
  }
};

// acc[pair][column pair] += octet kOctet of the rows times the operands `b` of column pairs.
template <unsigned kRows, unsigned kOctet, unsigned kColumnPairs>
ORT_MLAS_INLINE inline void MultiplyOctet(const int8_t* const (&rows)[RowPairs<kRows>::kCount],
                                          const uint8x16_t (&b)[kColumnPairs],
                                          int32x4_t (&acc)[RowPairs<kRows>::kCount][kColumnPairs]) {
  ORT_MLAS_UNROLL
  for (unsigned pair = 0; pair < RowPairs<kRows>::kCount; ++pair) {
    const int8x16_t a = RowPairs<kRows>::template Load<kOctet>(rows[pair]);
    ORT_MLAS_UNROLL
    for (unsigned j = 0; j < kColumnPairs; ++j) {
      acc[pair][j] = vmmlaq_s32(acc[pair][j], a, vreinterpretq_s8_u8(b[j]));
    }
  }
}

// All of a block's products, added to `acc`. kShort: the block has 16 k and (fused) one unit.
template <class N, unsigned kBits, unsigned kRows, unsigned kVecs, bool kPanel, bool kShort>
ORT_MLAS_INLINE inline void MultiplyBlock(const Layout& layout, const std::byte* block, size_t first_lane,
                                          const int8_t* a, size_t a_stride,
                                          int32x4_t (&acc)[RowPairs<kRows>::kCount][2 * kVecs]) {
  using Pairs = RowPairs<kRows>;
  using Codes = Joined<N, kPanel ? 2 : kBits, kShort>;  // a panel goes by as many octets as two units of 2 bits hold
  constexpr unsigned kStepOctets = Codes::kOctets;
  constexpr size_t kStepBytes = kPanel ? kStepOctets * kPanelOctetBytes : Codes::kUnits * kUnitBytes;
  const std::byte* b = block + first_lane * (kPanel ? kOctetK : kColumnBytes);
  const int8_t* rows[Pairs::kCount];
  ORT_MLAS_UNROLL
  for (unsigned pair = 0; pair < Pairs::kCount; ++pair) rows[pair] = a + 2 * pair * a_stride;

  const size_t block_len = kShort ? kStepOctets * kOctetK : layout.block_len;
  for (size_t k = 0; k < block_len; k += kStepOctets * kOctetK) {
    uint8x16_t operands[2 * kVecs];
    if constexpr (kPanel) {
      ForEach<kStepOctets>([&]<unsigned kOctet>() ORT_MLAS_INLINE {
        ForEach<2 * kVecs>([&]<unsigned kJ>() ORT_MLAS_INLINE {
          operands[kJ] = N::template LoadCodesAt<kOctet % 2 * kPanelOctetBytes + kJ * 2 * kOctetK>(
              b + kOctet / 2 * 2 * kPanelOctetBytes);
        });
        MultiplyOctet<kRows, kOctet>(rows, operands, acc);
      });
    } else {
      Codes codes[kVecs];
      ForEach<kVecs>([&]<unsigned kV>()
                         ORT_MLAS_INLINE { codes[kV] = Codes::template Load<kV * N::kLanes * kColumnBytes>(b); });
      ForEach<kStepOctets>([&]<unsigned kOctet>() ORT_MLAS_INLINE {
        ORT_MLAS_UNROLL
        for (unsigned j = 0; j < 2 * kVecs; ++j) operands[j] = codes[j / 2].template Operand<kOctet>(j % 2);
        MultiplyOctet<kRows, kOctet>(rows, operands, acc);
      });
    }
    b += kStepBytes;
    ORT_MLAS_UNROLL
    for (unsigned pair = 0; pair < Pairs::kCount; ++pair) rows[pair] += kStepOctets * Pairs::kOperandBytes;
  }
}

template <class N, unsigned kBits, unsigned kRows, unsigned kVecs, ZeroPointKind kZeroPoints, bool kPanel, bool kShort>
inline void MmlaTile(const Int8Args& args, size_t first_lane) {
  constexpr unsigned kPairs = RowPairs<kRows>::kCount;
  const Int8Args t = args;  // copies, so that fields stay in registers
  const Layout layout = *t.layout;
  const size_t block_bytes = kPanel ? layout.panel_block_bytes : layout.block_bytes;
  const auto columns_from = [&](unsigned v) { return t.columns - first_lane - v * N::kLanes; };
  const auto c_at = [&](unsigned r, unsigned v) { return t.c + r * t.ldc + first_lane + v * N::kLanes; };
  const auto both = [](auto x, unsigned j) { return j % 2 == 0 ? LowerHalves(x, x) : UpperHalves(x, x); };

  float32x4_t c[kPairs][2 * kVecs];
  ORT_MLAS_UNROLL
  for (unsigned pair = 0; pair < kPairs; ++pair) {
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      const auto load = [&](unsigned r) {
        return t.first || r >= kRows ? N::ZeroF32() : N::LoadPartial(c_at(r, v), columns_from(v));
      };
      const float32x4_t row0 = load(2 * pair), row1 = load(2 * pair + 1);
      c[pair][2 * v] = LowerHalves(row0, row1);
      c[pair][2 * v + 1] = UpperHalves(row0, row1);
    }
  }
  const std::byte* block = t.b;
  const int8_t* a = t.a;
  const ActivationBlock* meta = t.meta;
  for (size_t index = 0; index < t.blocks; ++index) {
    const auto meta_of = [&](unsigned pair) -> const ActivationBlock& { return meta[2 * pair * t.meta_stride]; };
    int32x4_t acc[kPairs][2 * kVecs];
    ORT_MLAS_UNROLL
    for (unsigned j = 0; j < 2 * kVecs; ++j) {
      const size_t lane = first_lane + j / 2 * N::kLanes;
      ORT_MLAS_UNROLL
      for (unsigned pair = 0; pair < kPairs; ++pair) {
        if constexpr (kZeroPoints == ZeroPointKind::kUniform) {
          acc[pair][j] = N::LoadTerm(meta_of(pair));
        } else if constexpr (kZeroPoints == ZeroPointKind::kPerBlock) {
          const auto zero_points = kPanel
                                       ? N::LoadI32(block + layout.panel_zero_points_offset() + lane * sizeof(int32_t))
                                       : N::LoadBytes(block + layout.zero_points_offset + lane);
          const auto term = N::LoadTerm(meta_of(pair));
          acc[pair][j] = N::StartSum(both(zero_points, j), term);
          if constexpr (N::kCodeOffset != 0) acc[pair][j] = N::SubI32(acc[pair][j], N::template ShiftLanesUp<7>(term));
        } else {
          acc[pair][j] = N::StartSum();
          if constexpr (N::kCodeOffset != 0) {
            acc[pair][j] = N::AddI32(acc[pair][j], N::template ShiftLanesUp<7>(N::LoadTerm(meta_of(pair))));
          }
        }
      }
    }
    MultiplyBlock<N, kBits, kRows, kVecs, kPanel, kShort>(layout, block, first_lane, a, t.a_stride, acc);
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      const size_t lane = first_lane + v * N::kLanes;
      const auto scales = LoadScales<N, kPanel>(layout, block, lane);
      ORT_MLAS_UNROLL
      for (unsigned j = 2 * v; j < 2 * v + 2; ++j) {
        const auto b_scale = both(scales, j);
        ORT_MLAS_UNROLL
        for (unsigned pair = 0; pair < kPairs; ++pair) {
          const auto a_scale = N::LoadScale(meta_of(pair));
          c[pair][j] = N::Fma(N::SumToFloat(acc[pair][j]), N::Mul(a_scale, b_scale), c[pair][j]);
        }
        if constexpr (kZeroPoints == ZeroPointKind::kFloat) {
          const auto offset = both(LoadZeroPointOffset<N, kPanel>(layout, block, lane, scales), j);
          ORT_MLAS_UNROLL
          for (unsigned pair = 0; pair < kPairs; ++pair) {
            const ActivationBlock& m = meta_of(pair);
            c[pair][j] = N::Fma(N::Mul(N::LoadScale(m), N::ToFloat(N::LoadTerm(m))), offset, c[pair][j]);
          }
        }
      }
    }
    block += block_bytes;
    a += layout.block_len * RowPairs<kRows>::kRowsInOperand;
    ++meta;
  }
  ORT_MLAS_UNROLL
  for (unsigned r = 0; r < kRows; ++r) {
    ORT_MLAS_UNROLL
    for (unsigned v = 0; v < kVecs; ++v) {
      const auto& pair = c[r / 2];
      auto row = r % 2 == 0 ? LowerHalves(pair[2 * v], pair[2 * v + 1]) : UpperHalves(pair[2 * v], pair[2 * v + 1]);
      if (t.bias != nullptr) {
        row = N::Add(row, N::LoadPartial(t.bias + first_lane + v * N::kLanes, columns_from(v)));
      }
      N::StorePartial(c_at(r, v), row, columns_from(v));
    }
  }
}

template <class N, unsigned kBits, unsigned kRows, unsigned kVecs, ZeroPointKind kZeroPoints, bool kPanel>
inline void MmlaTileOfBlock(const Int8Args& t, size_t first_lane) {
  if constexpr (kPanel || kBits == 2) {
    if (t.layout->block_len == kStepK) {
      return MmlaTile<N, kBits, kRows, kVecs, kZeroPoints, kPanel, true>(t, first_lane);
    }
  }
  MmlaTile<N, kBits, kRows, kVecs, kZeroPoints, kPanel, false>(t, first_lane);
}

// The entry of a row: tiles of kVecs vectors, then narrower ones; vectors that are all padding are skipped.
template <class N, unsigned kBits, unsigned kRows, unsigned kVecs, bool kPanel>
void RunMmla(const Int8Args& t) {
  const auto tiles = [&]<unsigned kV>(size_t lane) {
    for (; lane + (kV - 1) * N::kLanes < t.columns; lane += kV * N::kLanes) {
      switch (t.layout->zero_point_kind) {
        case ZeroPointKind::kUniform:
          MmlaTileOfBlock<N, kBits, kRows, kV, ZeroPointKind::kUniform, kPanel>(t, lane);
          break;
        case ZeroPointKind::kPerBlock:
          MmlaTileOfBlock<N, kBits, kRows, kV, ZeroPointKind::kPerBlock, kPanel>(t, lane);
          break;
        case ZeroPointKind::kFloat:
          MmlaTileOfBlock<N, kBits, kRows, kV, ZeroPointKind::kFloat, kPanel>(t, lane);
          break;
      }
    }
    return lane;
  };
  const size_t lane = tiles.template operator()<kVecs>(0);
  if constexpr (kVecs > 1) tiles.template operator()<1>(lane);
}

void ArrangeRows(const int8_t* q0, const int8_t* q1, const Layout& layout, size_t blocks, int8_t* to) {
  const size_t end = blocks * layout.block_len;
  const auto store = [&](int8x16_t row0, int8x16_t row1) {
    if (q1 == nullptr) {
      vst1q_s8(to, row0);
      to += 16;
    } else {
      vst1q_s8(to, LowerHalves(row0, row1));
      vst1q_s8(to + 16, UpperHalves(row0, row1));
      to += 32;
    }
  };
  const int8_t* const second = q1 != nullptr ? q1 : q0;
  if (layout.bits == 8 || layout.units == 1) {
    for (size_t k = 0; k < end; k += 16) store(vld1q_s8(q0 + k), vld1q_s8(second + k));
  } else if (layout.bits == 4) {
    // Quads 0, 1 of unit u and 2, 3 of unit u + 1 become 0, 2, 1, 3.
    const auto octets = [](int8x16_t x) {
      const int32x4_t quads = vreinterpretq_s32_s8(x);
      return vreinterpretq_s8_s32(
          vcombine_s32(vget_low_s32(vuzp1q_s32(quads, quads)), vget_low_s32(vuzp2q_s32(quads, quads))));
    };
    for (size_t k = 0; k < end; k += 16) store(octets(vld1q_s8(q0 + k)), octets(vld1q_s8(second + k)));
  } else {
    for (size_t k = 0; k < end; k += 32) {
      const int8x16_t row0[2] = {vld1q_s8(q0 + k), vld1q_s8(q0 + k + 16)};
      const int8x16_t row1[2] = {vld1q_s8(second + k), vld1q_s8(second + k + 16)};
      store(Zip1Words(row0[0], row0[1]), Zip1Words(row1[0], row1[1]));
      store(Zip2Words(row0[0], row0[1]), Zip2Words(row1[0], row1[1]));
    }
  }
}

// Strip -> int8 panel of matrix operands (layout.h).
template <class N, unsigned kBits>
void UnpackMmlaPanel(const std::byte* b, size_t blocks, const Layout& layout, std::byte* panel) {
  const auto unpack = [&]<bool kOneUnit>(const std::byte* units, std::byte* to) {
    using Codes = Joined<N, kBits, kOneUnit>;
    ForEach<kStripColumns / N::kLanes>([&]<unsigned kV>() {
      const auto codes = Codes::template Load<kV * N::kLanes * kColumnBytes>(units);
      ForEach<Codes::kOctets>([&]<unsigned kOctet>() {
        for (unsigned j = 0; j < 2; ++j) {
          N::StoreCodes(to + kOctet * kPanelOctetBytes + (2 * kV + j) * 2 * kOctetK, codes.template Operand<kOctet>(j));
        }
      });
    });
  };
  for (size_t block = 0; block < blocks; ++block, b += layout.block_bytes, panel += layout.panel_block_bytes) {
    if (layout.units == 1) {
      if constexpr (kBits == 2) unpack.template operator()<true>(b, panel);
    } else {
      for (size_t unit = 0; unit < layout.units; unit += 2) {
        unpack.template operator()<false>(b + unit * kUnitBytes, panel + unit * layout.unit_k * kStripColumns);
      }
    }
    UnpackParameters<N>(b, layout, panel);
  }
}

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
