// Kernels for AVX-512F, BW, DQ and VL, without VNNI.
#include "qnbit/activations_x86.h"
#include "qnbit/isa/avx512bw.h"
#include "qnbit/kernel_rows.h"

namespace onnxruntime_mlas::qnbit {
namespace {

using V = Avx512Bw;
constexpr Isa kIsa = Isa::kAvx512Bw;

#define INT8_ROWS(Vocabulary, bits)                                                                         \
  Int8FusedRow<Vocabulary, bits, 4, 2>(QNBIT_ROW_NAME(bits, "int8", "avx512bw", "fused", 4, 32), kIsa),     \
      Int8FusedRow<Vocabulary, bits, 2, 2>(QNBIT_ROW_NAME(bits, "int8", "avx512bw", "fused", 2, 32), kIsa), \
      Int8FusedRow<Vocabulary, bits, 1, 2>(QNBIT_ROW_NAME(bits, "int8", "avx512bw", "fused", 1, 32), kIsa), \
      Int8PanelRow<Vocabulary, bits, 4, 2>(QNBIT_ROW_NAME(bits, "int8", "avx512bw", "panel", 4, 32), kIsa), \
      Int8PanelRow<Vocabulary, bits, 2, 2>(QNBIT_ROW_NAME(bits, "int8", "avx512bw", "panel", 2, 32), kIsa), \
      Int8PanelRow<Vocabulary, bits, 1, 2>(QNBIT_ROW_NAME(bits, "int8", "avx512bw", "panel", 1, 32), kIsa)
#define FP32_ROWS(bits)                                                                            \
  Fp32FusedRow<V, bits, 2, 2>(QNBIT_ROW_NAME(bits, "fp32", "avx512bw", "fused", 2, 32), kIsa),     \
      Fp32FusedRow<V, bits, 1, 4>(QNBIT_ROW_NAME(bits, "fp32", "avx512bw", "fused", 1, 64), kIsa), \
      Fp32PanelRow<V, bits, 12>(QNBIT_ROW_NAME(bits, "fp32", "avx512bw", "panel", 12, 32), kIsa),  \
      Fp32PanelRow<V, bits, 6>(QNBIT_ROW_NAME(bits, "fp32", "avx512bw", "panel", 6, 32), kIsa),    \
      Fp32PanelRow<V, bits, 4>(QNBIT_ROW_NAME(bits, "fp32", "avx512bw", "panel", 4, 32), kIsa),    \
      Fp32PanelRow<V, bits, 2>(QNBIT_ROW_NAME(bits, "fp32", "avx512bw", "panel", 2, 32), kIsa),    \
      Fp32PanelRow<V, bits, 1>(QNBIT_ROW_NAME(bits, "fp32", "avx512bw", "panel", 1, 32), kIsa)

constexpr QnbitKernel kInt8Rows[] = {INT8_ROWS(V, 2), INT8_ROWS(V, 4), INT8_ROWS(Avx512BwBytes, 8)};
constexpr QnbitKernel kFp32Rows[] = {FP32_ROWS(2), FP32_ROWS(4), FP32_ROWS(8)};

}  // namespace

constinit const IsaKernels kAvx512BwKernels = {
    .int8_rows = kInt8Rows,
    .fp32_rows = kFp32Rows,
    .widths = {WidthOf<V, 2>(64, 4), WidthOf<V, 4>(kNever, 4), WidthOf<Avx512BwBytes, 8>(kNever, 4)},
    .activations = kActivationsX86,
    .arrange_rows = nullptr,
    .sum_bias = V::kSumBias,
    .int8_strips = 2,
    .fp32_panel_strips = 2,
};

}  // namespace onnxruntime_mlas::qnbit
