#include "candidates.h"

#include "column_dot.h"
#include "matrix_dot.h"
#include "quad_dot.h"

namespace arm64_w2 {

// Each loop has a C symbol, by which tools/cycles finds it.
#define LOOP(name, ...) \
  extern "C" __attribute__((noinline)) void name(const LoopArgs& t) { __VA_ARGS__(LoopArgs(t)); }

#define LOOPS(X)                                                                                                \
  /* SDOT by element on the quad format: tiles, in-place masks against shifts, block lengths */                 \
  X(quad_r1c4_64_inplace, kQuad, kRows, 1, 4, 64, QuadDot<1, 4, 64, true>)                                      \
  X(quad_r1c8_64_inplace, kQuad, kRows, 1, 8, 64, QuadDot<1, 8, 64, true>)                                      \
  X(quad_r1c16_64_inplace, kQuad, kRows, 1, 16, 64, QuadDot<1, 16, 64, true>)                                   \
  X(quad_r1c8_64_shift, kQuad, kRows, 1, 8, 64, QuadDot<1, 8, 64, false>)                                       \
  X(quad_r1c16_64_shift, kQuad, kRows, 1, 16, 64, QuadDot<1, 16, 64, false>)                                    \
  X(quad_r1c8_128_inplace, kQuad, kRows, 1, 8, 128, QuadDot<1, 8, 128, true>)                                   \
  X(quad_r1c8_32_inplace, kQuad, kRows, 1, 8, 32, QuadDot<1, 8, 32, true>)                                      \
  X(quad_r1c8_32_shift, kQuad, kRows, 1, 8, 32, QuadDot<1, 8, 32, false>)                                       \
  X(quad_r1c16_32_shift, kQuad, kRows, 1, 16, 32, QuadDot<1, 16, 32, false>)                                    \
  X(quad_r1c8_16_inplace, kQuad, kRows, 1, 8, 16, QuadDot<1, 8, 16, true>)                                      \
  X(quad_r1c8_16_shift, kQuad, kRows, 1, 8, 16, QuadDot<1, 8, 16, false>)                                       \
  X(quad_r1c16_16_shift, kQuad, kRows, 1, 16, 16, QuadDot<1, 16, 16, false>)                                    \
  X(quad_r2c4_64_inplace, kQuad, kRows, 2, 4, 64, QuadDot<2, 4, 64, true>)                                      \
  X(quad_r2c8_64_inplace, kQuad, kRows, 2, 8, 64, QuadDot<2, 8, 64, true>)                                      \
  X(quad_r2c8_64_shift, kQuad, kRows, 2, 8, 64, QuadDot<2, 8, 64, false>)                                       \
  X(quad_r2c16_64_shift, kQuad, kRows, 2, 16, 64, QuadDot<2, 16, 64, false>)                                    \
  X(quad_r4c4_64_inplace, kQuad, kRows, 4, 4, 64, QuadDot<4, 4, 64, true>)                                      \
  X(quad_r4c4_64_shift, kQuad, kRows, 4, 4, 64, QuadDot<4, 4, 64, false>)                                       \
  X(quad_r4c8_64_shift, kQuad, kRows, 4, 8, 64, QuadDot<4, 8, 64, false>)                                       \
  X(quad_r4c4_32_shift, kQuad, kRows, 4, 4, 32, QuadDot<4, 4, 32, false>)                                       \
  X(quad_r4c8_32_shift, kQuad, kRows, 4, 8, 32, QuadDot<4, 8, 32, false>)                                       \
  X(quad_r4c8_16_shift, kQuad, kRows, 4, 8, 16, QuadDot<4, 8, 16, false>)                                       \
  X(quad_r8c4_64_shift, kQuad, kRows, 8, 4, 64, QuadDot<8, 4, 64, false>)                                       \
  /* over a panel */                                                                                            \
  X(quad_panel_r4c4_64, kQuadPanel, kRows, 4, 4, 64, QuadPanelDot<4, 4, 64>)                                    \
  X(quad_panel_r4c8_64, kQuadPanel, kRows, 4, 8, 64, QuadPanelDot<4, 8, 64>)                                    \
  X(quad_panel_r8c4_64, kQuadPanel, kRows, 8, 4, 64, QuadPanelDot<8, 4, 64>)                                    \
  X(quad_panel_r4c8_32, kQuadPanel, kRows, 4, 8, 32, QuadPanelDot<4, 8, 32>)                                    \
  X(quad_panel_r4c8_16, kQuadPanel, kRows, 4, 8, 16, QuadPanelDot<4, 8, 16>)                                    \
  /* SMMLA from the quad format by ZIP */                                                                       \
  X(matrix_quad_r1c4_64, kQuad, kZipPairs, 1, 4, 64, MatrixDot<1, 4, 64, MatrixSource::kQuad, false>)           \
  X(matrix_quad_r1c8_64_inplace, kQuad, kZipPairs, 1, 8, 64, MatrixDot<1, 8, 64, MatrixSource::kQuad, true>)    \
  X(matrix_quad_r2c4_64, kQuad, kZipPairs, 2, 4, 64, MatrixDot<2, 4, 64, MatrixSource::kQuad, false>)           \
  X(matrix_quad_r2c8_64, kQuad, kZipPairs, 2, 8, 64, MatrixDot<2, 8, 64, MatrixSource::kQuad, false>)           \
  X(matrix_quad_r2c8_64_inplace, kQuad, kZipPairs, 2, 8, 64, MatrixDot<2, 8, 64, MatrixSource::kQuad, true>)    \
  X(matrix_quad_r4c4_64, kQuad, kZipPairs, 4, 4, 64, MatrixDot<4, 4, 64, MatrixSource::kQuad, false>)           \
  X(matrix_quad_r4c4_64_inplace, kQuad, kZipPairs, 4, 4, 64, MatrixDot<4, 4, 64, MatrixSource::kQuad, true>)    \
  X(matrix_quad_r4c8_64, kQuad, kZipPairs, 4, 8, 64, MatrixDot<4, 8, 64, MatrixSource::kQuad, false>)           \
  X(matrix_quad_r8c4_64, kQuad, kZipPairs, 8, 4, 64, MatrixDot<8, 4, 64, MatrixSource::kQuad, false>)           \
  X(matrix_quad_r4c4_128_inplace, kQuad, kZipPairs, 4, 4, 128, MatrixDot<4, 4, 128, MatrixSource::kQuad, true>) \
  X(matrix_quad_r4c4_32, kQuad, kZipPairs, 4, 4, 32, MatrixDot<4, 4, 32, MatrixSource::kQuad, false>)           \
  X(matrix_quad_r8c4_32, kQuad, kZipPairs, 8, 4, 32, MatrixDot<8, 4, 32, MatrixSource::kQuad, false>)           \
  X(matrix_quad_r2c8_16, kQuad, kPairs, 2, 8, 16, MatrixDot16<2, 8>)                                            \
  X(matrix_quad_r4c4_16, kQuad, kPairs, 4, 4, 16, MatrixDot16<4, 4>)                                            \
  X(matrix_quad_r8c4_16, kQuad, kPairs, 8, 4, 16, MatrixDot16<8, 4>)                                            \
  /* SMMLA from the design note's pair format */                                                                \
  X(matrix_pair_r1c8_64_inplace, kPair, kPairs, 1, 8, 64, MatrixDot<1, 8, 64, MatrixSource::kPair, true>)       \
  X(matrix_pair_r2c8_64, kPair, kPairs, 2, 8, 64, MatrixDot<2, 8, 64, MatrixSource::kPair, false>)              \
  X(matrix_pair_r2c8_64_inplace, kPair, kPairs, 2, 8, 64, MatrixDot<2, 8, 64, MatrixSource::kPair, true>)       \
  X(matrix_pair_r4c4_64, kPair, kPairs, 4, 4, 64, MatrixDot<4, 4, 64, MatrixSource::kPair, false>)              \
  X(matrix_pair_r4c8_64, kPair, kPairs, 4, 8, 64, MatrixDot<4, 8, 64, MatrixSource::kPair, false>)              \
  X(matrix_pair_r8c4_64, kPair, kPairs, 8, 4, 64, MatrixDot<8, 4, 64, MatrixSource::kPair, false>)              \
  /* over a panel */                                                                                            \
  X(matrix_panel_r4c4_64, kPairPanel, kPairs, 4, 4, 64, MatrixPanelDot<4, 4, 64>)                               \
  X(matrix_panel_r4c8_64, kPairPanel, kPairs, 4, 8, 64, MatrixPanelDot<4, 8, 64>)                               \
  X(matrix_panel_r8c4_64, kPairPanel, kPairs, 8, 4, 64, MatrixPanelDot<8, 4, 64>)                               \
  X(matrix_panel_r8c4_32, kPairPanel, kPairs, 8, 4, 32, MatrixPanelDot<8, 4, 32>)                               \
  /* one column per vector: the design note's tiles, and its options b and c for C1 and C4 */                   \
  X(column_r1c1_64, kColumn, kRows, 1, 1, 64, ColumnDot<1, 1, ColumnSource::kColumn>)                           \
  X(column_r1c4_64, kColumn, kRows, 1, 4, 64, ColumnDot<1, 4, ColumnSource::kColumn>)                           \
  X(column_r1c8_64, kColumn, kRows, 1, 8, 64, ColumnDot<1, 8, ColumnSource::kColumn>)                           \
  X(column_r2c1_64, kColumn, kRows, 2, 1, 64, ColumnDot<2, 1, ColumnSource::kColumn>)                           \
  X(column_r2c4_64, kColumn, kRows, 2, 4, 64, ColumnDot<2, 4, ColumnSource::kColumn>)                           \
  X(column_r2c8_64, kColumn, kRows, 2, 8, 64, ColumnDot<2, 8, ColumnSource::kColumn>)                           \
  X(uzp_r1c1_64, kQuadByFour, kUnitMajor, 1, 1, 64, ColumnDot<1, 1, ColumnSource::kUzp>)                        \
  X(uzp_r1c4_64, kQuadByFour, kUnitMajor, 1, 4, 64, ColumnDot<1, 4, ColumnSource::kUzp>)                        \
  X(uzp_r2c1_64, kQuadByFour, kUnitMajor, 2, 1, 64, ColumnDot<2, 1, ColumnSource::kUzp>)                        \
  X(uzp_r2c4_64, kQuadByFour, kUnitMajor, 2, 4, 64, ColumnDot<2, 4, ColumnSource::kUzp>)                        \
  X(ld4_r1c1_64, kQuadByFour, kUnitMajor, 1, 1, 64, ColumnDot<1, 1, ColumnSource::kLd4>)                        \
  X(ld4_r1c4_64, kQuadByFour, kUnitMajor, 1, 4, 64, ColumnDot<1, 4, ColumnSource::kLd4>)                        \
  X(ld4_r2c1_64, kQuadByFour, kUnitMajor, 2, 1, 64, ColumnDot<2, 1, ColumnSource::kLd4>)                        \
  X(ld4_r2c4_64, kQuadByFour, kUnitMajor, 2, 4, 64, ColumnDot<2, 4, ColumnSource::kLd4>)

#define DEFINE(name, format, order, rows, columns, block_len, ...) LOOP(name, __VA_ARGS__)
LOOPS(DEFINE)

#define ROW(name, format, order, rows, columns, block_len, ...) \
  {#name, BFormat::format, AOrder::order, rows, columns, block_len, name},

std::span<const Candidate> Candidates() {
  static constexpr Candidate kCandidates[] = {LOOPS(ROW)};
  return kCandidates;
}

}  // namespace arm64_w2
