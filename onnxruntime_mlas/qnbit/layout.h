// The quad format of packed weights. The only place in C++ that computes an offset into a packed payload or a panel.
//
//   payload   = strips of 16 columns, one after the other (N padded to whole strips)
//   strip     = k_blocks blocks (K padded to whole blocks)
//   block     = units | 16 scales, fp16 or fp32 | zero points, by kind:
//                 uniform: none; per block: 16 bytes; float: 16 fp32
//   unit      = 64 bytes = 16 columns x 4 bytes, covering 4P consecutive k, P = 8 / bits planes.
//               Byte j of column c holds the codes of k = 4p + j at bits [bits * p, bits * (p + 1)), p < P.
//
//                      column 0          column 1      ...    column 15
//               +---+---+---+---+---+---+---+---+-- ... --+---+---+---+---+
//               | j0| j1| j2| j3| j0| j1| j2| j3|         | j0| j1| j2| j3|
//               +---+---+---+---+---+---+---+---+-- ... --+---+---+---+---+
//      2 bits, byte j:   bits 7..6   5..4    3..2    1..0
//                        k = 12+j    8+j     4+j     j
//
// Shifted down by bits * p and masked, a unit is plane p: 16 columns x 4 neighbouring k, the operand of one 4-way dot
// instruction against 4 bytes of A broadcast to all lanes. Accumulators then hold one column per lane.
//
// Padding has code 0, scale 0, zero point 0.
//
// A panel is a strip unpacked for many rows of A, block by block:
//   int8 panel block = block_len / 4 planes of 64 bytes | 16 fp32 scales | 16 x 4 bytes: int32 zero points (per block)
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

struct Layout {
  size_t strips;
  size_t blocks;  // per strip
  size_t units;   // per block
  size_t unit_k;  // k per unit
  size_t block_len;
  size_t scale_bytes;  // of one scale
  size_t scales_offset;
  size_t zero_points_offset;
  size_t block_bytes;
  size_t strip_bytes;
  size_t panel_block_bytes;
  ScaleType scale_type;
  ZeroPointKind zero_point_kind;

  size_t payload_bytes() const { return strips * strip_bytes; }
  size_t block_offset(size_t strip, size_t block) const { return strip * strip_bytes + block * block_bytes; }
  size_t panel_scales_offset() const { return block_len * kStripColumns; }
  size_t panel_zero_points_offset() const { return panel_scales_offset() + kStripColumns * sizeof(float); }
};

inline Layout LayoutOf(const PackedInfo& info) {
  Layout layout{};
  layout.strips = info.n / kStripColumns + (info.n % kStripColumns != 0);
  layout.blocks = info.k_blocks();
  layout.unit_k = 4 * (8 / info.bits);
  layout.block_len = info.block_len;
  layout.units = info.block_len / layout.unit_k;
  layout.scale_type = info.scale_type;
  layout.zero_point_kind = info.zero_point_kind;
  layout.scale_bytes = info.scale_type == ScaleType::kFp16 ? 2 : 4;
  layout.scales_offset = layout.units * kUnitBytes;
  layout.zero_points_offset = layout.scales_offset + kStripColumns * layout.scale_bytes;
  const size_t zero_point_bytes = info.zero_point_kind == ZeroPointKind::kUniform    ? 0
                                  : info.zero_point_kind == ZeroPointKind::kPerBlock ? 1
                                                                                     : 4;
  layout.block_bytes = layout.zero_points_offset + kStripColumns * zero_point_bytes;
  layout.strip_bytes = layout.blocks * layout.block_bytes;
  layout.panel_block_bytes = layout.panel_zero_points_offset() + kStripColumns * 4;
  return layout;
}

}  // namespace onnxruntime_mlas::qnbit
