// Operator layout -> packed format. Baseline code: the inner loops run over the 16 columns of a quad strip or the 16
// bytes of a vector, which compilers vectorise for any ISA.
#include <algorithm>
#include <cstring>

#include "qnbit/half.h"
#include "qnbit/layout.h"
#include "qnbit/order_codes.h"
#include "qnbit/vector_codes.h"

namespace onnxruntime_mlas::qnbit {
namespace {

constexpr size_t kCodesPerByte2Bit = 4;

struct Packer {
  const Weights& weights;
  const PackedInfo& info;
  Layout layout;
  std::byte* payload;

  // Of the operator's layout.
  size_t column_bytes() const { return info.k_blocks() * info.block_len * info.bits / 8; }
  size_t zero_point_row_bytes() const { return (info.k_blocks() * info.bits + 7) / 8; }

  void PackStrip(size_t strip) const {
    const size_t first = strip * kStripColumns;
    const size_t columns = std::min(kStripColumns, info.n - first);
    if (layout.format == Format::kColumn) {
      // Columns and, in the last group, blocks that don't exist.
      std::memset(payload + layout.vector_offset(strip, 0, 0), 0, layout.strip_bytes);
      for (size_t column = 0; column < columns; ++column) PackVectors(strip, column);
    }
    for (size_t block = 0; block < layout.blocks; ++block) {
      if (layout.format == Format::kQuad) {
        PackUnits(first, columns, block, payload + layout.block_offset(strip, block));
      }
      const size_t source_block = block / layout.parts;
      PackScales(first, columns, source_block, payload + layout.scales_at(strip, block));
      PackZeroPoints(first, columns, source_block, payload + layout.zero_points_at(strip, block));
    }
  }

  void PackVectors(size_t strip, size_t column) const {
    const uint8_t* source = weights.codes + (strip * kStripColumns + column) * column_bytes();
    for (size_t vector = 0, k = 0; k < info.k; ++vector, k += kVectorK) {
      // What lies past k is junk that must not reach the kernels.
      const size_t valid = std::min(kVectorK, info.k - k);
      uint8_t codes[kVectorK] = {};
      for (size_t i = 0; i < valid; ++i) {
        codes[i] = (source[(k + i) / kCodesPerByte2Bit] >> (2 * (i % kCodesPerByte2Bit))) & 3;
      }
      JoinCodes(codes, payload + layout.vector_offset(strip, vector, column));
    }
  }

  void PackUnits(size_t first, size_t columns, size_t block, std::byte* target) const {
    const size_t valid_k = std::min(layout.block_len, info.k - block * layout.block_len);
    const size_t column_stride = column_bytes();
    const uint8_t* source = weights.codes + first * column_stride + block * layout.units * kColumnBytes;
    for (size_t unit = 0; unit < layout.units; ++unit) {
      uint32_t words[kStripColumns] = {};
      const size_t unit_first = unit * layout.unit_k;
      const size_t unit_valid = std::min(layout.unit_k, valid_k - std::min(valid_k, unit_first));
      if (unit_valid != 0) {
        for (size_t column = 0; column < columns; ++column) {
          std::memcpy(&words[column], source + column * column_stride + unit * kColumnBytes, kColumnBytes);
        }
        // What lies past k is junk that must not reach the kernels.
        const uint32_t keep = unit_valid == layout.unit_k ? ~0u : (1u << (info.bits * unit_valid)) - 1;
        for (uint32_t& word : words) word &= keep;
      }
      for (uint32_t& word : words) word = UnitOrder(word, info.bits);
      std::memcpy(target + unit * kUnitBytes, words, kUnitBytes);
    }
  }

  void PackScales(size_t first, size_t columns, size_t block, std::byte* target) const {
    const size_t k_blocks = info.k_blocks();
    const float* source = weights.scales + first * k_blocks + block;
    if (layout.scale_type == ScaleType::kFp32) {
      float scales[kStripColumns] = {};
      for (size_t column = 0; column < columns; ++column) scales[column] = source[column * k_blocks];
      std::memcpy(target, scales, sizeof(scales));
    } else {
      uint16_t scales[kStripColumns] = {};
      for (size_t column = 0; column < columns; ++column) {
        FloatToHalfIfExact(source[column * k_blocks], &scales[column]);
      }
      std::memcpy(target, scales, sizeof(scales));
    }
  }

  void PackZeroPoints(size_t first, size_t columns, size_t block, std::byte* target) const {
    float values[kStripColumns] = {};
    if (layout.zero_point_kind == ZeroPointKind::kUniform) return;
    for (size_t column = 0; column < columns; ++column) {
      if (weights.float_zero_points != nullptr) {
        values[column] = weights.float_zero_points[(first + column) * info.k_blocks() + block];
      } else {
        const size_t bit = block * info.bits;
        const uint8_t byte = weights.zero_points[(first + column) * zero_point_row_bytes() + bit / 8];
        values[column] = static_cast<float>((byte >> (bit % 8)) & ((1u << info.bits) - 1));
      }
    }
    if (layout.zero_point_kind == ZeroPointKind::kFloat) {
      std::memcpy(target, values, sizeof(values));
    } else {
      for (size_t column = 0; column < kStripColumns; ++column) {
        target[column] = static_cast<std::byte>(static_cast<uint8_t>(values[column]));
      }
    }
  }
};

}  // namespace

Status Pack(const Weights& weights, const PackedInfo& info, std::byte* buffer, size_t bytes,
            const ParallelFor& parallel) {
  if (buffer == nullptr || reinterpret_cast<uintptr_t>(buffer) % kPackedAlignment != 0 || bytes < PackedBytes(info)) {
    return Status::Error("the buffer to pack into needs " + std::to_string(PackedBytes(info)) +
                         " bytes at a multiple of " + std::to_string(kPackedAlignment));
  }
  if (info.n != weights.n || info.k != weights.k || info.bits != weights.bits || info.block_len != weights.block_len) {
    return Status::Error("the packing plan was made for other weights; call PlanPack on these");
  }
  ORT_MLAS_RETURN_IF_ERROR(CheckFormat(info));
  const Packer packer{weights, info, LayoutOf(info), buffer + sizeof(PackedHeader)};
  parallel(packer.layout.strips, [&](size_t strip) { packer.PackStrip(strip); });

  PackedHeader header{};
  std::memcpy(header.magic, kPackedMagic, sizeof(header.magic));
  header.version = kPackedVersion;
  header.family = kFamilyQnbit;
  header.format = info.format == Format::kColumn ? kFormatColumn : kFormatQuad;
  header.bits = info.bits;
  header.n = info.n;
  header.k = info.k;
  header.block_len = info.block_len;
  header.scale_type = static_cast<uint32_t>(info.scale_type);
  header.zero_point_kind = static_cast<uint32_t>(info.zero_point_kind);
  header.uniform_zero_point = info.uniform_zero_point;
  header.payload_bytes = packer.layout.payload_bytes();
  header.checksum = PackedChecksum(header, packer.payload);
  std::memcpy(buffer, &header, sizeof(header));
  return {};
}

}  // namespace onnxruntime_mlas::qnbit
