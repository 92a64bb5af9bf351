// Kernels for AVX2 with FMA and F16C.
#include "qnbit/activations_x86.h"
#include "qnbit/isa/avx2.h"
#include "qnbit/kernel_rows.h"

namespace onnxruntime_mlas::qnbit {
namespace {

using V = Avx2;
constexpr Isa kIsa = Isa::kAvx2;

#define INT8_ROWS(Vocabulary, bits)                                                                  \
  Int8FusedRow<Vocabulary, bits, 4>(QNBIT_ROW_NAME(bits, "int8", "avx2", "fused", 4, 16), kIsa),     \
      Int8FusedRow<Vocabulary, bits, 2>(QNBIT_ROW_NAME(bits, "int8", "avx2", "fused", 2, 16), kIsa), \
      Int8FusedRow<Vocabulary, bits, 1>(QNBIT_ROW_NAME(bits, "int8", "avx2", "fused", 1, 16), kIsa), \
      Int8PanelRow<Vocabulary, bits, 4>(QNBIT_ROW_NAME(bits, "int8", "avx2", "panel", 4, 16), kIsa), \
      Int8PanelRow<Vocabulary, bits, 2>(QNBIT_ROW_NAME(bits, "int8", "avx2", "panel", 2, 16), kIsa), \
      Int8PanelRow<Vocabulary, bits, 1>(QNBIT_ROW_NAME(bits, "int8", "avx2", "panel", 1, 16), kIsa)
#define FP32_ROWS(bits)                                                                        \
  Fp32FusedRow<V, bits, 2, 2>(QNBIT_ROW_NAME(bits, "fp32", "avx2", "fused", 2, 16), kIsa),     \
      Fp32FusedRow<V, bits, 1, 4>(QNBIT_ROW_NAME(bits, "fp32", "avx2", "fused", 1, 32), kIsa), \
      Fp32PanelRow<V, bits, 6>(QNBIT_ROW_NAME(bits, "fp32", "avx2", "panel", 6, 16), kIsa),    \
      Fp32PanelRow<V, bits, 4>(QNBIT_ROW_NAME(bits, "fp32", "avx2", "panel", 4, 16), kIsa),    \
      Fp32PanelRow<V, bits, 2>(QNBIT_ROW_NAME(bits, "fp32", "avx2", "panel", 2, 16), kIsa),    \
      Fp32PanelRow<V, bits, 1>(QNBIT_ROW_NAME(bits, "fp32", "avx2", "panel", 1, 16), kIsa)

constexpr QnbitKernel kInt8Rows[] = {INT8_ROWS(V, 2), INT8_ROWS(V, 4), INT8_ROWS(Avx2Bytes, 8)};
constexpr QnbitKernel kFp32Rows[] = {FP32_ROWS(2), FP32_ROWS(4), FP32_ROWS(8)};

}  // namespace

constinit const IsaKernels kAvx2Kernels = {
    .int8_rows = kInt8Rows,
    .fp32_rows = kFp32Rows,
    .widths = {WidthOf<V, 2>(kNever, 4), WidthOf<V, 4>(kNever, 4), WidthOf<Avx2Bytes, 8>(kNever, 4)},
    .activations = kActivationsX86,
    .arrange_rows = nullptr,
    .sum_bias = V::kSumBias,
    .int8_strips = 1,
    .fp32_panel_strips = 1,
};

}  // namespace onnxruntime_mlas::qnbit
