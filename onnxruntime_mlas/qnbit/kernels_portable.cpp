// Portable kernels, built with baseline flags: the fall-back where no faster ISA is available.
#include <cfloat>
#include <cmath>

#include "qnbit/isa/portable.h"
#include "qnbit/kernel_rows.h"

namespace onnxruntime_mlas::qnbit {
namespace {

using V = Portable;
constexpr Isa kIsa = Isa::kPortable;

// The rule of quantize_row.h, one number at a time.
bool QuantizeRowPortable(const float* a, size_t k, size_t block_len, size_t blocks, int8_t* q, float* scales,
                         int32_t* sums) {
  for (size_t block = 0; block < blocks; ++block, q += block_len) {
    const size_t first = block * block_len;
    const size_t valid = k - first < block_len ? k - first : block_len;
    float amax = 0.0f;
    for (size_t i = 0; i < valid; ++i) {
      if (!std::isfinite(a[first + i])) return false;
      amax = std::fmax(amax, std::fabs(a[first + i]));
    }
    const float r = amax == 0.0f ? 0.0f : 127.0f / amax;
    if (r > FLT_MAX) return false;
    int32_t sum = 0;
    for (size_t i = 0; i < block_len; ++i) {
      const float rounded = i < valid ? std::nearbyint(a[first + i] * r) : 0.0f;
      q[i] = static_cast<int8_t>(rounded);
      sum += q[i];
    }
    scales[block] = amax / 127.0f;
    sums[block] = sum;
  }
  return true;
}

constexpr QnbitKernel kInt8Rows[] = {
    Int8FusedRow<V, 4>(QNBIT_ROW_NAME("int8", "portable", "fused", 4, 16), kIsa),
    Int8FusedRow<V, 1>(QNBIT_ROW_NAME("int8", "portable", "fused", 1, 16), kIsa),
    Int8PanelRow<V, 4>(QNBIT_ROW_NAME("int8", "portable", "panel", 4, 16), kIsa),
    Int8PanelRow<V, 1>(QNBIT_ROW_NAME("int8", "portable", "panel", 1, 16), kIsa),
};

constexpr QnbitKernel kFp32Rows[] = {
    Fp32FusedRow<V, 1, 1>(QNBIT_ROW_NAME("fp32", "portable", "fused", 1, 16), kIsa),
    Fp32PanelRow<V, 4, 1>(QNBIT_ROW_NAME("fp32", "portable", "panel", 4, 16), kIsa),
    Fp32PanelRow<V, 1, 1>(QNBIT_ROW_NAME("fp32", "portable", "panel", 1, 16), kIsa),
};

}  // namespace

constinit const IsaKernels kPortableKernels = {
    .int8_rows = kInt8Rows,
    .fp32_rows = kFp32Rows,
    .column_rows = kPortableColumnRows,
    .quantize_row = QuantizeRowPortable,
    .unpack_int8_panel = UnpackInt8Panel<V>,
    .unpack_fp32_panel = UnpackFp32Panel<V>,
    .arrange_rows = nullptr,
    .sum_bias = V::kSumBias,
    .int8_panel_min_rows = 4,
    .fp32_panel_min_rows = 4,
    .fp32_panel_strips = 1,
};

}  // namespace onnxruntime_mlas::qnbit
