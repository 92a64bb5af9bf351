// Kernels for NEON with DotProd.
#include "qnbit/isa/neon_dotprod.h"
#include "qnbit/kernel_rows.h"
#include "qnbit/kernels_neon.h"
#include "qnbit/quantize_neon.h"
#include "qnbit/tile_column.h"

namespace onnxruntime_mlas::qnbit {
namespace {

using V = NeonDotProd;
constexpr Isa kIsa = Isa::kNeonDotProd;

constexpr QnbitKernel kInt8Rows[] = {
    Int8FusedRow<V, 4, 2>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 4, 8), kIsa),
    Int8FusedRow<V, 4, 4>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 4, 16), kIsa),
    Int8FusedRow<V, 4, 1>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 4, 4), kIsa),
    Int8FusedRow<V, 2, 2>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 2, 8), kIsa),
    Int8FusedRow<V, 2, 4>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 2, 16), kIsa),
    Int8FusedRow<V, 2, 1>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 2, 4), kIsa),
    Int8FusedRow<V, 1, 4>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 1, 16), kIsa),
    Int8FusedRow<V, 1, 2>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 1, 8), kIsa),
    Int8FusedRow<V, 1, 1>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 1, 4), kIsa),
    Int8PanelRow<V, 4, 2>(QNBIT_ROW_NAME("int8", "neon_dotprod", "panel", 4, 8), kIsa),
    Int8PanelRow<V, 2, 2>(QNBIT_ROW_NAME("int8", "neon_dotprod", "panel", 2, 8), kIsa),
    Int8PanelRow<V, 1, 4>(QNBIT_ROW_NAME("int8", "neon_dotprod", "panel", 1, 16), kIsa),
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
    .quantize_row = QuantizeRowNeon,
    .unpack_int8_panel = UnpackInt8Panel<V>,
    .unpack_fp32_panel = UnpackFp32Panel<V>,
    .arrange_rows = nullptr,
    .sum_bias = V::kSumBias,
    .int8_panel_min_rows = 12,
    .fp32_panel_min_rows = 4,
    .fp32_panel_strips = 1,
};

}  // namespace onnxruntime_mlas::qnbit
