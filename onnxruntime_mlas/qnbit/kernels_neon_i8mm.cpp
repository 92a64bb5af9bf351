// Kernels for NEON with I8MM. One row of A fills half of a matrix operand and is taken twice.
#include "qnbit/activations_neon.h"
#include "qnbit/kernel_rows.h"
#include "qnbit/kernels_neon.h"
#include "qnbit/tile_mmla.h"

namespace onnxruntime_mlas::qnbit {
namespace {

template <class V, unsigned kBits, unsigned kRows, unsigned kVecs, bool kPanel>
constexpr QnbitKernel MmlaRow(const char* name) {
  return {Row(name, Isa::kNeonI8mm, kBits, "int8", kPanel ? "panel" : "fused", kRows, kVecs * V::kLanes),
          ComputeType::kInt8,
          kPanel,
          {.run_int8 = RunMmla < V, kPanel ? kPanelBits : kBits, kRows, kVecs, kPanel > }};
}

template <class V, unsigned kBits>
constexpr WidthKernels MmlaWidth() {
  return {.unpack_int8_panel = UnpackMmlaPanel<V, kBits>,
          .unpack_fp32_panel = UnpackFp32Panel<V, kBits>,
          .code_offset = V::kCodeOffset,
          .int8_panel_min_rows = 16,
          .fp32_panel_min_rows = 4};
}

#define INT8_ROWS(Vocabulary, bits)                                                                     \
  MmlaRow<Vocabulary, bits, 8, 2, false>(QNBIT_ROW_NAME(bits, "int8", "neon_i8mm", "fused", 8, 8)),     \
      MmlaRow<Vocabulary, bits, 4, 2, false>(QNBIT_ROW_NAME(bits, "int8", "neon_i8mm", "fused", 4, 8)), \
      MmlaRow<Vocabulary, bits, 2, 2, false>(QNBIT_ROW_NAME(bits, "int8", "neon_i8mm", "fused", 2, 8)), \
      MmlaRow<Vocabulary, bits, 1, 2, false>(QNBIT_ROW_NAME(bits, "int8", "neon_i8mm", "fused", 1, 8)), \
      MmlaRow<Vocabulary, bits, 4, 2, true>(QNBIT_ROW_NAME(bits, "int8", "neon_i8mm", "panel", 4, 8)),  \
      MmlaRow<Vocabulary, bits, 2, 2, true>(QNBIT_ROW_NAME(bits, "int8", "neon_i8mm", "panel", 2, 8)),  \
      MmlaRow<Vocabulary, bits, 1, 2, true>(QNBIT_ROW_NAME(bits, "int8", "neon_i8mm", "panel", 1, 8))

constexpr QnbitKernel kInt8Rows[] = {INT8_ROWS(NeonMmla, 2), INT8_ROWS(NeonMmla, 4), INT8_ROWS(NeonMmlaBytes, 8)};

}  // namespace

constinit const IsaKernels kNeonI8mmKernels = {
    .int8_rows = kInt8Rows,
    .fp32_rows = kNeonFp32Rows,
    .widths = {MmlaWidth<NeonMmla, 2>(), MmlaWidth<NeonMmla, 4>(), MmlaWidth<NeonMmlaBytes, 8>()},
    .activations = kActivationsNeon,
    .arrange_rows = ArrangeRows,
    .sum_bias = NeonVector::kSumBias,
    .int8_strips = 1,
    .fp32_panel_strips = 1,
};

}  // namespace onnxruntime_mlas::qnbit
