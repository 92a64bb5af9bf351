// One column's scale and zero point of a block, in either packed format; for code built with baseline flags.
#pragma once

#include <cstring>

#include "qnbit/half.h"
#include "qnbit/layout.h"

namespace onnxruntime_mlas::qnbit {

// `scales`: the block's 16 (Layout::scales_at).
inline float ScaleOf(const std::byte* scales, ScaleType type, size_t column) {
  if (type == ScaleType::kFp16) {
    uint16_t half;
    std::memcpy(&half, scales + column * sizeof(half), sizeof(half));
    return HalfToFloat(half);
  }
  float scale;
  std::memcpy(&scale, scales + column * sizeof(scale), sizeof(scale));
  return scale;
}

// `zero_points`: the block's 16 (Layout::zero_points_at), not read when uniform.
inline float ZeroPointOf(const std::byte* zero_points, ZeroPointKind kind, float uniform, size_t column) {
  if (kind == ZeroPointKind::kUniform) return uniform;
  if (kind == ZeroPointKind::kPerBlock) return static_cast<float>(zero_points[column]);
  float zero_point;
  std::memcpy(&zero_point, zero_points + column * sizeof(zero_point), sizeof(zero_point));
  return zero_point;
}

}  // namespace onnxruntime_mlas::qnbit
