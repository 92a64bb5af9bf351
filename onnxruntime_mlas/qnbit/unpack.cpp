// Packed format -> operator layout.
#include <cstring>

#include "qnbit/layout.h"
#include "qnbit/parameters.h"
#include "qnbit/transpose_codes.h"
#include "qnbit/vector_codes.h"

namespace onnxruntime_mlas::qnbit {
namespace {

constexpr size_t kCodesPerByte = 4;

// One column's codes, [blocks, block_len / 4].
void UnpackUnits(const Layout& layout, const std::byte* payload, size_t strip, size_t lane, uint8_t* codes) {
  for (size_t block = 0; block < layout.blocks; ++block) {
    const std::byte* source = payload + layout.block_offset(strip, block) + lane * kColumnBytes;
    for (size_t unit = 0; unit < layout.units; ++unit) {
      uint32_t word;
      std::memcpy(&word, source + unit * kUnitBytes, kColumnBytes);
      word = TransposeCodes2Bit(word);
      std::memcpy(codes + (block * layout.units + unit) * kColumnBytes, &word, kColumnBytes);
    }
  }
}

void UnpackVectors(const Layout& layout, const std::byte* payload, size_t strip, size_t lane, uint8_t* codes) {
  const size_t end = layout.blocks * layout.block_len;
  std::memset(codes, 0, end / kCodesPerByte);
  for (size_t k = 0; k < end; ++k) {
    const std::byte* vector = payload + layout.vector_offset(strip, k / kVectorK, lane);
    codes[k / kCodesPerByte] |= static_cast<uint8_t>(CodeOf(vector, k) << (2 * (k % kCodesPerByte)));
  }
}

}  // namespace

void Unpack(const PackedView& view, uint8_t* codes, float* scales, float* zero_points) {
  const PackedInfo& info = view.info;
  const Layout layout = LayoutOf(info);
  const auto uniform = static_cast<float>(info.uniform_zero_point);
  for (size_t column = 0; column < info.n; ++column) {
    const size_t strip = column / kStripColumns, lane = column % kStripColumns;
    uint8_t* column_codes = codes + column * layout.blocks * layout.block_len / kCodesPerByte;
    if (layout.format == Format::kColumn) {
      UnpackVectors(layout, view.payload, strip, lane, column_codes);
    } else {
      UnpackUnits(layout, view.payload, strip, lane, column_codes);
    }
    for (size_t block = 0; block < layout.blocks; ++block) {
      const size_t target = column * layout.blocks + block;
      scales[target] = ScaleOf(view.payload + layout.scales_at(strip, block), layout.scale_type, lane);
      zero_points[target] =
          ZeroPointOf(view.payload + layout.zero_points_at(strip, block), layout.zero_point_kind, uniform, lane);
    }
  }
}

}  // namespace onnxruntime_mlas::qnbit
