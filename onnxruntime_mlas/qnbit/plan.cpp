// Chooses how a matrix's scales and zero points are stored, and opens packed buffers again.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>

#include "qnbit/half.h"
#include "qnbit/layout.h"

namespace onnxruntime_mlas::qnbit {
namespace {

// A padded weight takes less than two bytes in any representation, and K is padded to one block at most: no size
// computed from dims within this bound wraps around.
constexpr size_t kMaxPaddedElements = std::numeric_limits<size_t>::max() / 64;

std::string Text(size_t value) { return std::to_string(value); }

Status CheckDims(const PackedInfo& info) {
  if (std::find(std::begin(kBits), std::end(kBits), info.bits) == std::end(kBits)) {
    return Status::Error("bits = " + Text(info.bits) + " has no kernel here; supported: 2, 4, 8");
  }
  const std::span<const uint32_t> lengths = BlockLengths(info.bits);
  if (std::find(lengths.begin(), lengths.end(), info.block_len) == lengths.end()) {
    return Status::Error("block length " + Text(info.block_len) +
                         " has no kernel here; with bits = " + Text(info.bits) + " it must be a power of two from " +
                         Text(lengths.front()) + " to " + Text(lengths.back()));
  }
  if (info.n == 0 || info.k == 0) {
    return Status::Error("weights must have n >= 1 and k >= 1, got n = " + Text(info.n) + ", k = " + Text(info.k));
  }
  if (info.n > kMaxPaddedElements || info.k > kMaxPaddedElements ||
      info.n + kStripColumns > kMaxPaddedElements / (info.k + info.block_len)) {
    return Status::Error("n = " + Text(info.n) + " times k = " + Text(info.k) + " is too large to address");
  }
  return {};
}

Status CheckWeights(const Weights& weights, PackedInfo* info) {
  *info = PackedInfo{.n = weights.n, .k = weights.k, .bits = weights.bits, .block_len = weights.block_len};
  ORT_MLAS_RETURN_IF_ERROR(CheckDims(*info));
  if (weights.codes == nullptr || weights.scales == nullptr) return Status::Error("weights need codes and scales");
  if (weights.zero_points != nullptr && weights.float_zero_points != nullptr) {
    return Status::Error("weights have both integer and float zero points; give one kind");
  }
  return {};
}

uint32_t PackedZeroPoint(const Weights& weights, size_t row_bytes, size_t column, size_t block) {
  const size_t bit = block * weights.bits;
  return (weights.zero_points[column * row_bytes + bit / 8] >> (bit % 8)) & ((1u << weights.bits) - 1);
}

void PlanIntegerZeroPoints(const Weights& weights, PackedInfo* info) {
  const size_t blocks = info->k_blocks();
  const size_t row_bytes = (blocks * weights.bits + 7) / 8;
  const uint32_t first = PackedZeroPoint(weights, row_bytes, 0, 0);
  for (size_t column = 0; column < weights.n; ++column) {
    for (size_t block = 0; block < blocks; ++block) {
      if (PackedZeroPoint(weights, row_bytes, column, block) != first) {
        info->zero_point_kind = ZeroPointKind::kPerBlock;
        return;
      }
    }
  }
  info->uniform_zero_point = first;
}

void PlanFloatZeroPoints(const Weights& weights, PackedInfo* info) {
  const float largest = static_cast<float>((1u << weights.bits) - 1);
  const size_t count = weights.n * info->k_blocks();
  const float first = weights.float_zero_points[0];
  bool uniform = true;
  for (size_t i = 0; i < count; ++i) {
    const float value = weights.float_zero_points[i];
    // Written so that NaN counts as not an integer.
    if (!(value >= 0.0f && value <= largest && value == std::trunc(value))) {
      info->zero_point_kind = ZeroPointKind::kFloat;
      return;
    }
    uniform = uniform && value == first;
  }
  if (uniform) {
    info->uniform_zero_point = static_cast<uint32_t>(first);
  } else {
    info->zero_point_kind = ZeroPointKind::kPerBlock;
  }
}

}  // namespace

Status CheckFormat(const PackedInfo& info) {
  if (info.format != Format::kColumn || info.bits == 2) return {};
  return Status::Error("the column format holds 2-bit weights only, not " + Text(info.bits) + "-bit ones; use quad");
}

Status PlanPack(const Weights& weights, PackedInfo* info) {
  ORT_MLAS_RETURN_IF_ERROR(CheckWeights(weights, info));
  const size_t count = weights.n * info->k_blocks();
  uint16_t half;
  for (size_t i = 0; i < count; ++i) {
    if (!FloatToHalfIfExact(weights.scales[i], &half)) {
      info->scale_type = ScaleType::kFp32;
      break;
    }
  }
  info->uniform_zero_point = 1u << (weights.bits - 1);
  if (weights.zero_points != nullptr) PlanIntegerZeroPoints(weights, info);
  if (weights.float_zero_points != nullptr) PlanFloatZeroPoints(weights, info);
  return {};
}

Status PlanPackGeneral(const Weights& weights, PackedInfo* info) {
  ORT_MLAS_RETURN_IF_ERROR(CheckWeights(weights, info));
  info->scale_type = ScaleType::kFp32;
  info->uniform_zero_point = 1u << (weights.bits - 1);
  if (weights.zero_points != nullptr) info->zero_point_kind = ZeroPointKind::kPerBlock;
  if (weights.float_zero_points != nullptr) info->zero_point_kind = ZeroPointKind::kFloat;
  return {};
}

size_t PackedBytes(const PackedInfo& info) { return sizeof(PackedHeader) + LayoutOf(info).payload_bytes(); }

Status OpenPacked(const std::byte* buffer, size_t bytes, bool verify_checksum, PackedView* view) {
  PackedHeader header;
  ORT_MLAS_RETURN_IF_ERROR(CheckPackedHeader(buffer, bytes, verify_checksum, &header));
  if (header.family != kFamilyQnbit || (header.format != kFormatQuad && header.format != kFormatColumn)) {
    return Status::Error("packed buffer holds family " + Text(header.family) + ", format " + Text(header.format) +
                         "; low-bit GEMM reads family " + Text(kFamilyQnbit) + ", format " + Text(kFormatQuad) +
                         " (quad) or " + Text(kFormatColumn) + " (column)");
  }
  PackedInfo info{.n = header.n, .k = header.k, .bits = header.bits, .block_len = header.block_len};
  ORT_MLAS_RETURN_IF_ERROR(CheckDims(info));
  if (header.scale_type > static_cast<uint32_t>(ScaleType::kFp32) ||
      header.zero_point_kind > static_cast<uint32_t>(ZeroPointKind::kFloat) ||
      header.uniform_zero_point >= (1u << header.bits)) {
    return Status::Error("packed buffer's header has an unknown scale type, zero point kind or zero point; pack again");
  }
  info.scale_type = static_cast<ScaleType>(header.scale_type);
  info.zero_point_kind = static_cast<ZeroPointKind>(header.zero_point_kind);
  info.uniform_zero_point = header.uniform_zero_point;
  info.format = header.format == kFormatColumn ? Format::kColumn : Format::kQuad;
  ORT_MLAS_RETURN_IF_ERROR(CheckFormat(info));
  if (PackedBytes(info) != bytes) {
    return Status::Error("packed buffer of " + Text(bytes) + " bytes can't hold n = " + Text(info.n) +
                         ", k = " + Text(info.k) + ", which take " + Text(PackedBytes(info)) + "; pack again");
  }
  *view = PackedView{info, buffer + sizeof(PackedHeader)};
  return {};
}

}  // namespace onnxruntime_mlas::qnbit
