// Kernels for NEON with DotProd.
#include "qnbit/activations_neon.h"
#include "qnbit/isa/neon_dotprod.h"
#include "qnbit/kernel_rows.h"
#include "qnbit/kernels_neon.h"
#include "qnbit/tile_column.h"

namespace onnxruntime_mlas::qnbit {
namespace {

using V = NeonDotProd;
constexpr Isa kIsa = Isa::kNeonDotProd;

#define INT8_ROWS(Vocabulary, bits)                                                                             \
  Int8FusedRow<Vocabulary, bits, 4, 2>(QNBIT_ROW_NAME(bits, "int8", "neon_dotprod", "fused", 4, 8), kIsa),      \
      Int8FusedRow<Vocabulary, bits, 2, 2>(QNBIT_ROW_NAME(bits, "int8", "neon_dotprod", "fused", 2, 8), kIsa),  \
      Int8FusedRow<Vocabulary, bits, 1, 4>(QNBIT_ROW_NAME(bits, "int8", "neon_dotprod", "fused", 1, 16), kIsa), \
      Int8PanelRow<Vocabulary, bits, 4, 2>(QNBIT_ROW_NAME(bits, "int8", "neon_dotprod", "panel", 4, 8), kIsa),  \
      Int8PanelRow<Vocabulary, bits, 2, 2>(QNBIT_ROW_NAME(bits, "int8", "neon_dotprod", "panel", 2, 8), kIsa),  \
      Int8PanelRow<Vocabulary, bits, 1, 4>(QNBIT_ROW_NAME(bits, "int8", "neon_dotprod", "panel", 1, 16), kIsa)

constexpr QnbitKernel kInt8Rows[] = {
    INT8_ROWS(V, 2),
    INT8_ROWS(V, 4),
    INT8_ROWS(NeonDotProdBytes, 8),
    // Further tiles of the grid, by name.
    Int8FusedRow<V, 2, 4, 4>(QNBIT_ROW_NAME(2, "int8", "neon_dotprod", "fused", 4, 16), kIsa),
    Int8FusedRow<V, 2, 4, 1>(QNBIT_ROW_NAME(2, "int8", "neon_dotprod", "fused", 4, 4), kIsa),
    Int8FusedRow<V, 2, 2, 4>(QNBIT_ROW_NAME(2, "int8", "neon_dotprod", "fused", 2, 16), kIsa),
    Int8FusedRow<V, 2, 2, 1>(QNBIT_ROW_NAME(2, "int8", "neon_dotprod", "fused", 2, 4), kIsa),
    Int8FusedRow<V, 2, 1, 2>(QNBIT_ROW_NAME(2, "int8", "neon_dotprod", "fused", 1, 8), kIsa),
    Int8FusedRow<V, 2, 1, 1>(QNBIT_ROW_NAME(2, "int8", "neon_dotprod", "fused", 1, 4), kIsa),
};

constexpr QnbitKernel kColumnRows[] = {
    ColumnRow(QNBIT_COLUMN_ROW_NAME("neon_dotprod", 2, 8), kIsa, 2, 8, RunColumn<2, 8>),
    ColumnRow(QNBIT_COLUMN_ROW_NAME("neon_dotprod", 2, 4), kIsa, 2, 4, RunColumn<2, 4>),
    ColumnRow(QNBIT_COLUMN_ROW_NAME("neon_dotprod", 2, 1), kIsa, 2, 1, RunColumn<2, 1>),
    ColumnRow(QNBIT_COLUMN_ROW_NAME("neon_dotprod", 1, 8), kIsa, 1, 8, RunColumn<1, 8>),
    ColumnRow(QNBIT_COLUMN_ROW_NAME("neon_dotprod", 1, 4), kIsa, 1, 4, RunColumn<1, 4>),
    ColumnRow(QNBIT_COLUMN_ROW_NAME("neon_dotprod", 1, 1), kIsa, 1, 1, RunColumn<1, 1>),
};

}  // namespace

constinit const IsaKernels kNeonDotProdKernels = {
    .int8_rows = kInt8Rows,
    .fp32_rows = kNeonFp32Rows,
    .column_rows = kColumnRows,
    .widths = {WidthOf<V, 2>(12, 4), WidthOf<V, 4>(12, 4), WidthOf<NeonDotProdBytes, 8>(12, 4)},
    .activations = kActivationsNeon,
    .arrange_rows = nullptr,
    .sum_bias = V::kSumBias,
    .int8_strips = 1,
    .fp32_panel_strips = 1,
};

}  // namespace onnxruntime_mlas::qnbit
