// Kernels for AVX-512 VNNI.
#include "qnbit/isa/avx512vnni.h"
#include "qnbit/kernel_rows.h"
#include "qnbit/quantize_x86.h"

namespace onnxruntime_mlas::qnbit {
namespace {

using V = Avx512Vnni;
constexpr Isa kIsa = Isa::kAvx512Vnni;

constexpr QnbitKernel kInt8Rows[] = {
    Int8FusedRow<V, 8>(QNBIT_ROW_NAME("int8", "avx512vnni", "fused", 8, 16), kIsa),
    Int8FusedRow<V, 4>(QNBIT_ROW_NAME("int8", "avx512vnni", "fused", 4, 16), kIsa),
    Int8FusedRow<V, 2>(QNBIT_ROW_NAME("int8", "avx512vnni", "fused", 2, 16), kIsa),
    Int8FusedRow<V, 1>(QNBIT_ROW_NAME("int8", "avx512vnni", "fused", 1, 16), kIsa),
    Int8PanelRow<V, 8>(QNBIT_ROW_NAME("int8", "avx512vnni", "panel", 8, 16), kIsa),
    Int8PanelRow<V, 4>(QNBIT_ROW_NAME("int8", "avx512vnni", "panel", 4, 16), kIsa),
    Int8PanelRow<V, 2>(QNBIT_ROW_NAME("int8", "avx512vnni", "panel", 2, 16), kIsa),
    Int8PanelRow<V, 1>(QNBIT_ROW_NAME("int8", "avx512vnni", "panel", 1, 16), kIsa),
};

constexpr QnbitKernel kFp32Rows[] = {
    Fp32FusedRow<V, 2, 2>(QNBIT_ROW_NAME("fp32", "avx512vnni", "fused", 2, 32), kIsa),
    Fp32FusedRow<V, 1, 4>(QNBIT_ROW_NAME("fp32", "avx512vnni", "fused", 1, 64), kIsa),
    Fp32PanelRow<V, 12>(QNBIT_ROW_NAME("fp32", "avx512vnni", "panel", 12, 32), kIsa),
    Fp32PanelRow<V, 6>(QNBIT_ROW_NAME("fp32", "avx512vnni", "panel", 6, 32), kIsa),
    Fp32PanelRow<V, 4>(QNBIT_ROW_NAME("fp32", "avx512vnni", "panel", 4, 32), kIsa),
    Fp32PanelRow<V, 2>(QNBIT_ROW_NAME("fp32", "avx512vnni", "panel", 2, 32), kIsa),
    Fp32PanelRow<V, 1>(QNBIT_ROW_NAME("fp32", "avx512vnni", "panel", 1, 32), kIsa),
};

}  // namespace

constinit const IsaKernels kAvx512VnniKernels = {
    .int8_rows = kInt8Rows,
    .fp32_rows = kFp32Rows,
    .quantize_row = QuantizeRowX86,
    .unpack_int8_panel = UnpackInt8Panel<V>,
    .unpack_fp32_panel = UnpackFp32Panel<V>,
    .arrange_rows = nullptr,
    .sum_bias = V::kSumBias,
    .int8_panel_min_rows = 16,
    .fp32_panel_min_rows = 4,
    .fp32_panel_strips = 2,
};

}  // namespace onnxruntime_mlas::qnbit
