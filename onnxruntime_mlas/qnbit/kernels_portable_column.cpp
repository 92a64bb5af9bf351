// The column format in portable C++, built with baseline flags: for ISAs without kernels of their own for it. The
// arithmetic is that of tile_int8.h and tile_fp32.h, so results agree to the bit with those of the quad format.
#include <algorithm>
#include <cmath>

#include "qnbit/kernel_rows.h"
#include "qnbit/parameters.h"
#include "qnbit/vector_codes.h"

namespace onnxruntime_mlas::qnbit {
namespace {

int32_t DotColumn(const std::byte* strip, const Layout& layout, size_t block, size_t column, const int8_t* a) {
  int32_t sum = 0;
  for (size_t k = block * layout.block_len; k < (block + 1) * layout.block_len; ++k) {
    sum += CodeOf(strip + layout.vector_offset(0, k / kVectorK, column), k) * a[k];
  }
  return sum;
}

void RunPortableColumn(const Int8Args& t) {
  const Layout& layout = *t.layout;
  float c[kStripColumns] = {};
  if (!t.first) std::copy_n(t.c, t.columns, c);
  for (size_t block = 0; block < t.blocks; ++block) {
    const std::byte* scales = t.b + layout.scales_at(0, block);
    const std::byte* zero_points = t.b + layout.zero_points_at(0, block);
    const int32_t term = t.meta[block].term[0];
    const float a_scale = t.meta[block].scale[0];
    for (size_t column = 0; column < t.columns; ++column) {
      int32_t sum = DotColumn(t.b, layout, block, column, t.a);
      if (layout.zero_point_kind == ZeroPointKind::kUniform) sum += term;
      if (layout.zero_point_kind == ZeroPointKind::kPerBlock) sum += static_cast<int32_t>(zero_points[column]) * term;
      const float b_scale = ScaleOf(scales, layout.scale_type, column);
      c[column] = std::fma(static_cast<float>(sum), a_scale * b_scale, c[column]);
      if (layout.zero_point_kind == ZeroPointKind::kFloat) {
        const float offset = -(ZeroPointOf(zero_points, layout.zero_point_kind, 0.0f, column) * b_scale);
        c[column] = std::fma(a_scale * static_cast<float>(term), offset, c[column]);
      }
    }
  }
  for (size_t column = 0; column < t.columns; ++column) {
    t.c[column] = t.bias != nullptr ? c[column] + t.bias[column] : c[column];
  }
}

}  // namespace

constinit const QnbitKernel kPortableColumnRows[kPortableColumnRowCount] = {
    ColumnRow(QNBIT_COLUMN_ROW_NAME("portable", 1, 16), Isa::kPortable, 1, 16, RunPortableColumn),
};

void UnpackColumnFp32Panel(const std::byte* strip, const Layout& layout, float uniform_zero_point, size_t k_begin,
                           size_t k_end, float* panel, size_t stride) {
  for (size_t k = k_begin; k < k_end; ++k, panel += stride) {
    const std::byte* vectors = strip + layout.vector_offset(0, k / kVectorK, 0);
    const std::byte* scales = strip + layout.scales_at(0, k / layout.block_len);
    const std::byte* zero_points = strip + layout.zero_points_at(0, k / layout.block_len);
    for (size_t column = 0; column < kStripColumns; ++column) {
      const float code = CodeOf(vectors + column * kVectorBytes, k);
      const float zero_point = ZeroPointOf(zero_points, layout.zero_point_kind, uniform_zero_point, column);
      panel[column] = (code - zero_point) * ScaleOf(scales, layout.scale_type, column);
    }
  }
}

}  // namespace onnxruntime_mlas::qnbit
