// The formats of packed weights. The only place in C++ that computes an offset into a packed payload or a panel.
//
// In both, the payload is strips of 16 columns, one after the other (N padded to whole strips). Padding has code 0,
// scale 0, zero point 0.
//
// Quad format, the default: accumulators hold one column per lane.
//
//   strip     = k_blocks blocks (K padded to whole blocks)
//   block     = units | 16 scales, fp16 or fp32 | zero points, by kind:
//                 uniform: none; per block: 16 bytes; float: 16 fp32
//   unit      = 64 bytes = 16 columns x 4 bytes, covering 4P consecutive k, P = 8 / bits planes.
//               Byte j of column c holds the codes of k = 4p + j at bits [bits * p, bits * (p + 1)), p < P.
//               Codes of 8 bits stand less 128, as signed dot products take them.
//
//                      column 0          column 1      ...    column 15
//               +---+---+---+---+---+---+---+---+-- ... --+---+---+---+---+
//               | j0| j1| j2| j3| j0| j1| j2| j3|         | j0| j1| j2| j3|
//               +---+---+---+---+---+---+---+---+-- ... --+---+---+---+---+
//      2 bits, byte j:   bits 7..6   5..4    3..2    1..0
//                        k = 12+j    8+j     4+j     j
//
// Shifted down by bits * p and masked, a unit is plane p: 16 columns x 4 neighbouring k, the operand of one 4-way dot
// instruction against 4 bytes of A broadcast to all lanes.
//
// A block longer than MaxPartLen is stored as parts of that length, each with the block's scale and zero point: below,
// and in kernels, "block" means a part. So 16-bit products are enough for zero points, and sums stay below 2^22 in
// magnitude, which NEON's conversion to float relies on (isa/neon_vector.h).
//
// Column format, of 2 bits only, the baseline that the quad format is measured against: a vector holds one column,
// whose sum stands in all lanes of its accumulator and is added up at the end of every block.
//
//   strip     = groups of max(64, block_len) k (K padded to whole groups)
//   group     = for every 64 k: 16 vectors, one per column | for every block of the group: scales | zero points
//   vector    = 16 bytes = 64 k of one column. Byte j holds the codes of k = 16p + j at bits [2p, 2p + 2), p < 4.
//
//                 byte 0     1           15                  planes that make up a block of
//               +-------+-------+-- --+-------+              16 k    32 k    64 k and more
//     bits 1..0 | k = 0 |   1   | ... |  15   |  plane 0     first   first   all planes of 1, 2
//     bits 3..2 |  16   |  17   | ... |  31   |  plane 1     second    "     or 4 vectors, which
//     bits 5..4 |  32   |  33   | ... |  47   |  plane 2     third   second  lie 16 vectors apart
//     bits 7..6 |  48   |  49   | ... |  63   |  plane 3     fourth    "
//               +-------+-------+-- --+-------+
//
// Plane p, shifted down and masked, is the operand of one dot instruction against 16 neighbouring k of A.
//
// A panel is a quad strip unpacked for many rows of A, block by block:
//   int8 panel block = block_len / 4 planes of 64 bytes, as the ISA's dot product takes codes | 16 fp32 scales | 16 x 4
//   bytes: int32 zero points (per block)
//                      or fp32 -(zero point * scale) (float)
//   For matrix instructions the planes are replaced by block_len / 8 octets of 128 bytes: 16 columns x 8 k, in the
//   order of k that tile_mmla.h names.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onnxruntime_mlas/qnbit.h"

namespace onnxruntime_mlas::qnbit {

inline constexpr size_t kStripColumns = 16;
inline constexpr size_t kUnitBytes = 64;
inline constexpr size_t kColumnBytes = 4;  // of one column in a unit
inline constexpr size_t kQuadK = 4;        // k per dot instruction
inline constexpr size_t kVectorBytes = 16;
inline constexpr size_t kVectorPlanes = 4;
inline constexpr size_t kVectorK = kVectorPlanes * kVectorBytes;
inline constexpr size_t kVectorRowBytes = kStripColumns * kVectorBytes;  // 64 k of all columns of a strip

constexpr size_t MaxPartLen(uint32_t bits) { return bits == 8 ? 128 : 256; }
static_assert(128 * 255 * 127 < 1 << 22 && 256 * 15 * 127 < 1 << 22);
inline constexpr size_t kMaxPartLen = 256;

struct Layout {
  Format format;
  size_t strips;
  size_t blocks;     // that exist, per strip
  size_t block_len;  // of a part
  size_t parts;      // blocks here per block of the operator
  uint32_t bits;
  size_t group_blocks;      // blocks whose codes stand together, before their scales: 1 in quad strips
  size_t group_bytes;       // of those with their scales and zero points
  size_t scale_bytes;       // of one scale
  size_t scales_offset;     // of a group's first block
  size_t parameters_bytes;  // 16 scales and zero points
  size_t strip_bytes;
  ScaleType scale_type;
  ZeroPointKind zero_point_kind;

  // Quad format alone.
  size_t units;   // per block
  size_t unit_k;  // k per unit
  size_t zero_points_offset;
  size_t block_bytes;
  size_t panel_block_bytes;

  // Column format alone.
  size_t group_vectors;  // per column

  size_t payload_bytes() const { return strips * strip_bytes; }
  // In either format.
  size_t scales_at(size_t strip, size_t block) const {
    return strip * strip_bytes + block / group_blocks * group_bytes + scales_offset +
           block % group_blocks * parameters_bytes;
  }
  size_t zero_points_at(size_t strip, size_t block) const {
    return scales_at(strip, block) + kStripColumns * scale_bytes;
  }

  size_t block_offset(size_t strip, size_t block) const { return strip * strip_bytes + block * block_bytes; }
  size_t panel_scales_offset() const { return block_len * kStripColumns; }
  size_t panel_zero_points_offset() const { return panel_scales_offset() + kStripColumns * sizeof(float); }

  // The vector of one column of a column strip that holds k = kVectorK * vector and on.
  size_t vector_offset(size_t strip, size_t vector, size_t column) const {
    return strip * strip_bytes + vector / group_vectors * group_bytes + vector % group_vectors * kVectorRowBytes +
           column * kVectorBytes;
  }
};

// Refuses a width that the format doesn't hold.
Status CheckFormat(const PackedInfo& info);

inline Layout LayoutOf(const PackedInfo& info) {
  Layout layout{};
  layout.format = info.format;
  layout.strips = info.n / kStripColumns + (info.n % kStripColumns != 0);
  layout.bits = info.bits;
  layout.block_len = info.block_len < MaxPartLen(info.bits) ? info.block_len : MaxPartLen(info.bits);
  layout.parts = info.block_len / layout.block_len;
  layout.blocks = info.k / layout.block_len + (info.k % layout.block_len != 0);
  layout.scale_type = info.scale_type;
  layout.zero_point_kind = info.zero_point_kind;
  layout.scale_bytes = info.scale_type == ScaleType::kFp16 ? 2 : 4;
  const size_t zero_point_bytes = info.zero_point_kind == ZeroPointKind::kUniform    ? 0
                                  : info.zero_point_kind == ZeroPointKind::kPerBlock ? 1
                                                                                     : 4;
  layout.parameters_bytes = kStripColumns * (layout.scale_bytes + zero_point_bytes);
  if (info.format == Format::kColumn) {
    const size_t group_k = layout.block_len < kVectorK ? kVectorK : layout.block_len;
    layout.group_blocks = group_k / layout.block_len;
    layout.group_vectors = group_k / kVectorK;
    layout.scales_offset = layout.group_vectors * kVectorRowBytes;
  } else {
    layout.group_blocks = 1;
    layout.unit_k = 4 * (8 / info.bits);
    layout.units = layout.block_len / layout.unit_k;
    layout.scales_offset = layout.units * kUnitBytes;
    layout.zero_points_offset = layout.scales_offset + kStripColumns * layout.scale_bytes;
    layout.block_bytes = layout.scales_offset + layout.parameters_bytes;
    layout.panel_block_bytes = layout.panel_zero_points_offset() + kStripColumns * 4;
  }
  layout.group_bytes = layout.scales_offset + layout.group_blocks * layout.parameters_bytes;
  const size_t groups = layout.blocks / layout.group_blocks + (layout.blocks % layout.group_blocks != 0);
  layout.strip_bytes = groups * layout.group_bytes;
  return layout;
}

}  // namespace onnxruntime_mlas::qnbit
