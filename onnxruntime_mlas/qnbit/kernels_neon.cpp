// Kernels for ARMv8.0 NEON.
#include "qnbit/kernels_neon.h"
#include "qnbit/isa/neon.h"
#include "qnbit/kernel_rows.h"
#include "qnbit/quantize_neon.h"

namespace onnxruntime_mlas::qnbit {
namespace {

using V = Neon;
constexpr Isa kIsa = Isa::kNeon;

constexpr QnbitKernel kInt8Rows[] = {
    Int8FusedRow<V, 4, 2>(QNBIT_ROW_NAME("int8", "neon", "fused", 4, 8), kIsa),
    Int8FusedRow<V, 2, 2>(QNBIT_ROW_NAME("int8", "neon", "fused", 2, 8), kIsa),
    Int8FusedRow<V, 1, 4>(QNBIT_ROW_NAME("int8", "neon", "fused", 1, 16), kIsa),
    Int8PanelRow<V, 4, 2>(QNBIT_ROW_NAME("int8", "neon", "panel", 4, 8), kIsa),
    Int8PanelRow<V, 2, 2>(QNBIT_ROW_NAME("int8", "neon", "panel", 2, 8), kIsa),
    Int8PanelRow<V, 1, 4>(QNBIT_ROW_NAME("int8", "neon", "panel", 1, 16), kIsa),
};

}  // namespace

constinit const QnbitKernel kNeonFp32Rows[kNeonFp32RowCount] = {
    Fp32FusedRow<V, 2, 4>(QNBIT_ROW_NAME("fp32", "neon", "fused", 2, 16), kIsa),
    Fp32FusedRow<V, 1, 4>(QNBIT_ROW_NAME("fp32", "neon", "fused", 1, 16), kIsa),
    Fp32PanelRow<V, 6, 4>(QNBIT_ROW_NAME("fp32", "neon", "panel", 6, 16), kIsa),
    Fp32PanelRow<V, 4, 4>(QNBIT_ROW_NAME("fp32", "neon", "panel", 4, 16), kIsa),
    Fp32PanelRow<V, 2, 4>(QNBIT_ROW_NAME("fp32", "neon", "panel", 2, 16), kIsa),
    Fp32PanelRow<V, 1, 4>(QNBIT_ROW_NAME("fp32", "neon", "panel", 1, 16), kIsa),
};

constinit const IsaKernels kNeonKernels = {
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
