// Kernels for NEON with I8MM. One row of A fills half of a matrix operand and is taken twice.
#include "qnbit/kernel_rows.h"
#include "qnbit/kernels_neon.h"
#include "qnbit/quantize_neon.h"
#include "qnbit/tile_mmla.h"

namespace onnxruntime_mlas::qnbit {
namespace {

template <unsigned kRows, unsigned kVecs, bool kPanel>
constexpr QnbitKernel MmlaRow(const char* name) {
  return {Row(name, Isa::kNeonI8mm, "int8", kPanel ? "panel" : "fused", kRows, kVecs * N::kLanes),
          ComputeType::kInt8,
          kPanel,
          {.run_int8 = RunMmla<kRows, kVecs, kPanel>}};
}

constexpr QnbitKernel kInt8Rows[] = {
    MmlaRow<8, 2, false>(QNBIT_ROW_NAME("int8", "neon_i8mm", "fused", 8, 8)),
    MmlaRow<4, 2, false>(QNBIT_ROW_NAME("int8", "neon_i8mm", "fused", 4, 8)),
    MmlaRow<2, 2, false>(QNBIT_ROW_NAME("int8", "neon_i8mm", "fused", 2, 8)),
    MmlaRow<1, 2, false>(QNBIT_ROW_NAME("int8", "neon_i8mm", "fused", 1, 8)),
    MmlaRow<4, 2, true>(QNBIT_ROW_NAME("int8", "neon_i8mm", "panel", 4, 8)),
    MmlaRow<2, 2, true>(QNBIT_ROW_NAME("int8", "neon_i8mm", "panel", 2, 8)),
    MmlaRow<1, 2, true>(QNBIT_ROW_NAME("int8", "neon_i8mm", "panel", 1, 8)),
};

}  // namespace

constinit const IsaKernels kNeonI8mmKernels = {
    .int8_rows = kInt8Rows,
    .fp32_rows = kNeonFp32Rows,
    .quantize_row = QuantizeRowNeon,
    .unpack_int8_panel = UnpackMmlaPanel,
    .unpack_fp32_panel = UnpackFp32Panel<NeonVector>,
    .arrange_rows = ArrangeRows,
    .sum_bias = NeonVector::kSumBias,
    .int8_panel_min_rows = 16,
    .fp32_panel_min_rows = 4,
    .fp32_panel_strips = 1,
};

}  // namespace onnxruntime_mlas::qnbit
