// Kernels for AVX2 with FMA and F16C.
#include "qnbit/isa/avx2.h"
#include "qnbit/kernel_rows.h"
#include "qnbit/quantize_x86.h"

namespace onnxruntime_mlas::qnbit {
namespace {

using V = Avx2;
constexpr Isa kIsa = Isa::kAvx2;

constexpr QnbitKernel kInt8Rows[] = {
    Int8FusedRow<V, 4>(QNBIT_ROW_NAME("int8", "avx2", "fused", 4, 16), kIsa),
    Int8FusedRow<V, 2>(QNBIT_ROW_NAME("int8", "avx2", "fused", 2, 16), kIsa),
    Int8FusedRow<V, 1>(QNBIT_ROW_NAME("int8", "avx2", "fused", 1, 16), kIsa),
    Int8PanelRow<V, 4>(QNBIT_ROW_NAME("int8", "avx2", "panel", 4, 16), kIsa),
    Int8PanelRow<V, 2>(QNBIT_ROW_NAME("int8", "avx2", "panel", 2, 16), kIsa),
    Int8PanelRow<V, 1>(QNBIT_ROW_NAME("int8", "avx2", "panel", 1, 16), kIsa),
};

constexpr QnbitKernel kFp32Rows[] = {
    Fp32FusedRow<V, 2, 2>(QNBIT_ROW_NAME("fp32", "avx2", "fused", 2, 16), kIsa),
    Fp32FusedRow<V, 1, 4>(QNBIT_ROW_NAME("fp32", "avx2", "fused", 1, 32), kIsa),
    Fp32PanelRow<V, 6>(QNBIT_ROW_NAME("fp32", "avx2", "panel", 6, 16), kIsa),
    Fp32PanelRow<V, 4>(QNBIT_ROW_NAME("fp32", "avx2", "panel", 4, 16), kIsa),
    Fp32PanelRow<V, 2>(QNBIT_ROW_NAME("fp32", "avx2", "panel", 2, 16), kIsa),
    Fp32PanelRow<V, 1>(QNBIT_ROW_NAME("fp32", "avx2", "panel", 1, 16), kIsa),
};

}  // namespace

constinit const IsaKernels kAvx2Kernels = {
    .int8_rows = kInt8Rows,
    .fp32_rows = kFp32Rows,
    .quantize_row = QuantizeRowX86,
    .unpack_int8_panel = UnpackInt8Panel<V>,
    .unpack_fp32_panel = UnpackFp32Panel<V>,
    .arrange_rows = nullptr,
    .sum_bias = V::kSumBias,
    .int8_panel_min_rows = 16,
    .fp32_panel_min_rows = 4,
    .fp32_panel_strips = 1,
};

}  // namespace onnxruntime_mlas::qnbit
