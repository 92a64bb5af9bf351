// Kernels for NEON with DotProd.
#include "qnbit/isa/neon_dotprod.h"
#include "qnbit/kernel_rows.h"
#include "qnbit/kernels_neon.h"
#include "qnbit/quantize_neon.h"

namespace onnxruntime_mlas::qnbit {
namespace {

using V = NeonDotProd;
constexpr Isa kIsa = Isa::kNeonDotProd;

constexpr QnbitKernel kInt8Rows[] = {
    Int8FusedRow<V, 4, 2>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 4, 8), kIsa),
    Int8FusedRow<V, 4, 4>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 4, 16), kIsa),
    Int8FusedRow<V, 4, 1>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 4, 4), kIsa),
    Int8FusedRow<V, 2, 4>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 2, 16), kIsa),
    Int8FusedRow<V, 2, 2>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 2, 8), kIsa),
    Int8FusedRow<V, 2, 1>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 2, 4), kIsa),
    Int8FusedRow<V, 1, 4>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 1, 16), kIsa),
    Int8FusedRow<V, 1, 2>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 1, 8), kIsa),
    Int8FusedRow<V, 1, 1>(QNBIT_ROW_NAME("int8", "neon_dotprod", "fused", 1, 4), kIsa),
    Int8PanelRow<V, 8, 2>(QNBIT_ROW_NAME("int8", "neon_dotprod", "panel", 8, 8), kIsa),
    Int8PanelRow<V, 4, 4>(QNBIT_ROW_NAME("int8", "neon_dotprod", "panel", 4, 16), kIsa),
    Int8PanelRow<V, 2, 4>(QNBIT_ROW_NAME("int8", "neon_dotprod", "panel", 2, 16), kIsa),
    Int8PanelRow<V, 1, 4>(QNBIT_ROW_NAME("int8", "neon_dotprod", "panel", 1, 16), kIsa),
};

}  // namespace

constinit const IsaKernels kNeonDotProdKernels = {
    .int8_rows = kInt8Rows,
    .fp32_rows = kNeonFp32Rows,
    .quantize_row = QuantizeRowNeon,
    .unpack_int8_panel = UnpackInt8Panel<V>,
    .unpack_fp32_panel = UnpackFp32Panel<V>,
    .arrange_rows = nullptr,
    .sum_bias = V::kSumBias,
    .int8_panel_min_rows = 16,
    .fp32_panel_min_rows = 4,
    .fp32_panel_strips = 1,
};

}  // namespace onnxruntime_mlas::qnbit
