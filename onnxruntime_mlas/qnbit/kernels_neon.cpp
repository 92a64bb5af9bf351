// Kernels for ARMv8.0 NEON.
#include "qnbit/kernels_neon.h"
#include "qnbit/activations_neon.h"
#include "qnbit/isa/neon.h"
#include "qnbit/kernel_rows.h"

namespace onnxruntime_mlas::qnbit {
namespace {

using V = Neon;
constexpr Isa kIsa = Isa::kNeon;

#define INT8_ROWS(Vocabulary, bits)                                                                     \
  Int8FusedRow<Vocabulary, bits, 4, 2>(QNBIT_ROW_NAME(bits, "int8", "neon", "fused", 4, 8), kIsa),      \
      Int8FusedRow<Vocabulary, bits, 2, 2>(QNBIT_ROW_NAME(bits, "int8", "neon", "fused", 2, 8), kIsa),  \
      Int8FusedRow<Vocabulary, bits, 1, 4>(QNBIT_ROW_NAME(bits, "int8", "neon", "fused", 1, 16), kIsa), \
      Int8PanelRow<Vocabulary, bits, 4, 2>(QNBIT_ROW_NAME(bits, "int8", "neon", "panel", 4, 8), kIsa),  \
      Int8PanelRow<Vocabulary, bits, 2, 2>(QNBIT_ROW_NAME(bits, "int8", "neon", "panel", 2, 8), kIsa),  \
      Int8PanelRow<Vocabulary, bits, 1, 4>(QNBIT_ROW_NAME(bits, "int8", "neon", "panel", 1, 16), kIsa)
#define FP32_ROWS(bits)                                                                        \
  Fp32FusedRow<V, bits, 2, 4>(QNBIT_ROW_NAME(bits, "fp32", "neon", "fused", 2, 16), kIsa),     \
      Fp32FusedRow<V, bits, 1, 4>(QNBIT_ROW_NAME(bits, "fp32", "neon", "fused", 1, 16), kIsa), \
      Fp32PanelRow<V, bits, 6, 4>(QNBIT_ROW_NAME(bits, "fp32", "neon", "panel", 6, 16), kIsa), \
      Fp32PanelRow<V, bits, 4, 4>(QNBIT_ROW_NAME(bits, "fp32", "neon", "panel", 4, 16), kIsa), \
      Fp32PanelRow<V, bits, 2, 4>(QNBIT_ROW_NAME(bits, "fp32", "neon", "panel", 2, 16), kIsa), \
      Fp32PanelRow<V, bits, 1, 4>(QNBIT_ROW_NAME(bits, "fp32", "neon", "panel", 1, 16), kIsa)

constexpr QnbitKernel kInt8Rows[] = {INT8_ROWS(V, 2), INT8_ROWS(V, 4), INT8_ROWS(NeonBytes, 8)};

}  // namespace

constinit const QnbitKernel kNeonFp32Rows[kNeonFp32RowCount] = {FP32_ROWS(2), FP32_ROWS(4), FP32_ROWS(8)};

constinit const IsaKernels kNeonKernels = {
    .int8_rows = kInt8Rows,
    .fp32_rows = kNeonFp32Rows,
    .widths = {WidthOf<V, 2>(16, 4), WidthOf<V, 4>(16, 4), WidthOf<NeonBytes, 8>(16, 4)},
    .activations = kActivationsNeon,
    .arrange_rows = nullptr,
    .sum_bias = V::kSumBias,
    .int8_strips = 1,
    .fp32_panel_strips = 1,
};

}  // namespace onnxruntime_mlas::qnbit
