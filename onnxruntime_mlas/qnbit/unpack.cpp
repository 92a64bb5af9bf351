// Packed format -> operator layout.
#include <cstring>

#include "qnbit/layout.h"
#include "qnbit/order_codes.h"
#include "qnbit/parameters.h"
#include "qnbit/vector_codes.h"

namespace onnxruntime_mlas::qnbit {
namespace {

constexpr size_t kCodesPerByte2Bit = 4;

// One column's codes, of the blocks that exist.
void UnpackUnits(const Layout& layout, const std::byte* payload, size_t strip, size_t lane, uint8_t* codes) {
  for (size_t block = 0; block < layout.blocks; ++block) {
    const std::byte* source = payload + layout.block_offset(strip, block) + lane * kColumnBytes;
    for (size_t unit = 0; unit < layout.units; ++unit) {
      uint32_t word;
      std::memcpy(&word, source + unit * kUnitBytes, kColumnBytes);
      word = OperatorOrder(word, layout.bits);
      std::memcpy(codes + (block * layout.units + unit) * kColumnBytes, &word, kColumnBytes);
    }
  }
}

void UnpackVectors(const Layout& layout, const std::byte* payload, size_t strip, size_t lane, uint8_t* codes) {
  const size_t end = layout.blocks * layout.block_len;
  std::memset(codes, 0, end / kCodesPerByte2Bit);
  for (size_t k = 0; k < end; ++k) {
    const std::byte* vector = payload + layout.vector_offset(strip, k / kVectorK, lane);
    codes[k / kCodesPerByte2Bit] |= static_cast<uint8_t>(CodeOf(vector, k) << (2 * (k % kCodesPerByte2Bit)));
  }
}

}  // namespace

void Unpack(const PackedView& view, uint8_t* codes, float* scales, float* zero_points) {
  const PackedInfo& info = view.info;
  const Layout layout = LayoutOf(info);
  const auto uniform = static_cast<float>(info.uniform_zero_point);
  for (size_t column = 0; column < info.n; ++column) {
    const size_t strip = column / kStripColumns, lane = column % kStripColumns;
    const size_t column_bytes = info.k_blocks() * info.block_len * info.bits / 8;
    uint8_t* column_codes = codes + column * column_bytes;
    if (layout.format == Format::kColumn) {
      UnpackVectors(layout, view.payload, strip, lane, column_codes);
    } else {
      UnpackUnits(layout, view.payload, strip, lane, column_codes);
      // The last block's parts that don't exist.
      const size_t stored = layout.blocks * layout.block_len * info.bits / 8;
      std::memset(column_codes + stored, 0, column_bytes - stored);
    }
    for (size_t block = 0; block < info.k_blocks(); ++block) {
      const size_t target = column * info.k_blocks() + block;
      const size_t part = block * layout.parts;
      scales[target] = ScaleOf(view.payload + layout.scales_at(strip, part), layout.scale_type, lane);
      zero_points[target] =
          ZeroPointOf(view.payload + layout.zero_points_at(strip, part), layout.zero_point_kind, uniform, lane);
    }
  }
}

}  // namespace onnxruntime_mlas::qnbit
