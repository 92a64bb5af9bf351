// Quad format -> operator layout.
#include <algorithm>
#include <cstring>

#include "qnbit/half.h"
#include "qnbit/layout.h"
#include "qnbit/transpose_codes.h"

namespace onnxruntime_mlas::qnbit {

void Unpack(const PackedView& view, uint8_t* codes, float* scales, float* zero_points) {
  const PackedInfo& info = view.info;
  const Layout layout = LayoutOf(info);
  for (size_t column = 0; column < info.n; ++column) {
    const size_t lane = column % kStripColumns;
    for (size_t block = 0; block < layout.blocks; ++block) {
      const std::byte* source = view.payload + layout.block_offset(column / kStripColumns, block);
      const size_t target = column * layout.blocks + block;
      for (size_t unit = 0; unit < layout.units; ++unit) {
        uint32_t word;
        std::memcpy(&word, source + unit * kUnitBytes + lane * kColumnBytes, kColumnBytes);
        word = TransposeCodes2Bit(word);
        std::memcpy(codes + (target * layout.units + unit) * kColumnBytes, &word, kColumnBytes);
      }
      const std::byte* scale = source + layout.scales_offset + lane * layout.scale_bytes;
      if (layout.scale_type == ScaleType::kFp16) {
        uint16_t half;
        std::memcpy(&half, scale, sizeof(half));
        scales[target] = HalfToFloat(half);
      } else {
        std::memcpy(&scales[target], scale, sizeof(float));
      }
      const std::byte* zero_point = source + layout.zero_points_offset;
      switch (layout.zero_point_kind) {
        case ZeroPointKind::kUniform:
          zero_points[target] = static_cast<float>(info.uniform_zero_point);
          break;
        case ZeroPointKind::kPerBlock:
          zero_points[target] = static_cast<float>(zero_point[lane]);
          break;
        case ZeroPointKind::kFloat:
          std::memcpy(&zero_points[target], zero_point + lane * sizeof(float), sizeof(float));
          break;
      }
    }
  }
}

}  // namespace onnxruntime_mlas::qnbit
