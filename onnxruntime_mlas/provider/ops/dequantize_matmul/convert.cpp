#include "provider/ops/dequantize_matmul/convert.h"

#include <algorithm>
#include <cstring>

namespace onnxruntime_mlas::provider::dequantize_matmul {
namespace {

// A tile is 64 bytes, a cache line, of a row of the constant and 64 bytes of each column's codes.
constexpr size_t kTileBytes = 64;
constexpr size_t kMaxFieldsPerByte = 4;
constexpr size_t kMaxTileColumns = kTileBytes * kMaxFieldsPerByte;

// Columns of a task where the constant has them as rows.
constexpr size_t kTaskColumns = 64;

// Copies `count` fields, beginning with field `first` of a packed stream, to the beginning of `target`. Fields of the
// last byte that don't belong to them are junk.
void CopyFields(const uint8_t* source, size_t first, size_t count, uint32_t bits, uint8_t* target) {
  const size_t shift = first * bits % 8;
  const size_t bytes = (count * bits + 7) / 8;
  source += first * bits / 8;
  if (shift == 0) {
    std::memcpy(target, source, bytes);
    return;
  }
  const size_t source_bytes = (shift + count * bits + 7) / 8;
  for (size_t i = 0; i < bytes; ++i) {
    const unsigned high = i + 1 < source_bytes ? source[i + 1] : 0u;
    target[i] = static_cast<uint8_t>((source[i] | high << 8) >> shift);
  }
}

uint8_t FieldAt(const uint8_t* source, size_t index, uint32_t bits) {
  uint8_t field;
  CopyFields(source, index, 1, bits, &field);
  return static_cast<uint8_t>(field & ((1u << bits) - 1));
}

// One byte per field. Writes whole bytes' worth of fields: up to kMaxFieldsPerByte - 1 beyond `count`.
template <uint32_t kBits>
void ExpandFields(const uint8_t* packed, size_t count, uint8_t* fields) {
  constexpr uint32_t kPerByte = 8 / kBits;
  constexpr auto kMask = static_cast<uint8_t>((1u << kBits) - 1);
  const size_t bytes = (count + kPerByte - 1) / kPerByte;
  for (size_t i = 0; i < bytes; ++i) {
    for (uint32_t j = 0; j < kPerByte; ++j) {
      fields[i * kPerByte + j] = static_cast<uint8_t>(packed[i] >> (kBits * j)) & kMask;
    }
  }
}

void ExpandFields(const uint8_t* packed, size_t count, uint32_t bits, uint8_t* fields) {
  if (bits == 2) return ExpandFields<2>(packed, count, fields);
  if (bits == 4) return ExpandFields<4>(packed, count, fields);
  std::memcpy(fields, packed, count);
}

// The top bit of every field of a byte.
uint8_t TopBits(uint32_t bits) { return static_cast<uint8_t>(bits == 8 ? 0x80 : bits == 4 ? 0x88 : 0xAA); }

class Converter {
 public:
  Converter(const Constants& constants, uint32_t block_len)
      : constants_(constants),
        bits_(constants.type.bits),
        fields_per_byte_(8 / bits_),
        block_len_(block_len),
        k_blocks_(constants.k / block_len + (constants.k % block_len != 0)),
        flip_(constants.type.is_signed ? TopBits(bits_) : uint8_t{0}) {}

  size_t k_blocks() const { return k_blocks_; }
  size_t column_bytes() const { return k_blocks_ * block_len_ / fields_per_byte_; }
  size_t zero_point_bytes() const { return (k_blocks_ * bits_ + 7) / 8; }

  // Columns that are converted together: as many as a tile has, or else enough for a task.
  size_t task_columns() const { return constants_.transposed ? kTaskColumns : kTileBytes * fields_per_byte_; }

  void ConvertCodes(size_t first, size_t columns, uint8_t* codes) const {
    if (constants_.transposed) return CopyColumns(first, columns, codes);
    for (size_t byte = 0; byte < column_bytes(); byte += kTileBytes) TransposeTile(first, columns, byte, codes);
  }

  void ConvertScales(size_t first, size_t columns, float* scales) const {
    for (size_t block = 0; block < k_blocks_; ++block) {
      const Series source = ScalesOf(block);
      for (size_t column = first; column < first + columns; ++column) {
        scales[column * k_blocks_ + block] = constants_.scales[source.at(column)];
      }
    }
  }

  // `zero_points` is all zeros.
  void ConvertZeroPoints(size_t first, size_t columns, uint8_t* zero_points) const {
    const auto flip = static_cast<uint8_t>(flip_ & ((1u << bits_) - 1));
    for (size_t block = 0; block < k_blocks_; ++block) {
      const Series source = ScalesOf(block);
      const size_t shift = block % fields_per_byte_ * bits_;
      for (size_t column = first; column < first + columns; ++column) {
        const uint8_t field =
            constants_.zero_points == nullptr ? 0 : FieldAt(constants_.zero_points, source.at(column), bits_);
        zero_points[column * zero_point_bytes() + block / fields_per_byte_] |=
            static_cast<uint8_t>((field ^ flip) << shift);
      }
    }
  }

 private:
  // Where the scales of all columns stand in the constant.
  struct Series {
    size_t first;
    size_t stride;
    size_t at(size_t column) const { return first + column * stride; }
  };

  // Of a packed block. Zero points stand alike.
  Series ScalesOf(size_t block) const {
    if (constants_.granularity == Granularity::kTensor) return {0, 0};
    if (constants_.granularity == Granularity::kColumn) return {0, 1};
    const size_t scale_block = block * block_len_ / constants_.scale_block;
    if (!constants_.transposed) return {scale_block * constants_.n, 1};
    return {scale_block, constants_.k / constants_.scale_block + (constants_.k % constants_.scale_block != 0)};
  }

  void CopyColumns(size_t first, size_t columns, uint8_t* codes) const {
    const size_t bytes = (constants_.k + fields_per_byte_ - 1) / fields_per_byte_;
    for (size_t column = first; column < first + columns; ++column) {
      uint8_t* const target = codes + column * column_bytes();
      CopyFields(constants_.codes, column * constants_.k, constants_.k, bits_, target);
      for (size_t i = 0; i < bytes; ++i) target[i] ^= flip_;
      std::memset(target + bytes, 0, column_bytes() - bytes);
    }
  }

  void TransposeTile(size_t first, size_t columns, size_t first_byte, uint8_t* codes) const {
    uint8_t tile[kTileBytes][kMaxTileColumns];
    const size_t bytes = std::min(kTileBytes, column_bytes() - first_byte);
    for (size_t byte = 0; byte < bytes; ++byte) {
      std::memset(tile[byte], 0, columns);
      for (uint32_t j = 0; j < fields_per_byte_; ++j) {
        const size_t k = (first_byte + byte) * fields_per_byte_ + j;
        if (k >= constants_.k) break;
        uint8_t packed[kTileBytes];
        uint8_t fields[kMaxTileColumns];
        CopyFields(constants_.codes, k * constants_.n + first, columns, bits_, packed);
        ExpandFields(packed, columns, bits_, fields);
        for (size_t i = 0; i < columns; ++i) tile[byte][i] |= static_cast<uint8_t>(fields[i] << (bits_ * j));
      }
    }
    for (size_t column = 0; column < columns; ++column) {
      uint8_t* const target = codes + (first + column) * column_bytes() + first_byte;
      for (size_t byte = 0; byte < bytes; ++byte) target[byte] = tile[byte][column] ^ flip_;
    }
  }

  const Constants& constants_;
  uint32_t bits_;
  uint32_t fields_per_byte_;
  size_t block_len_;
  size_t k_blocks_;
  uint8_t flip_;
};

}  // namespace

void Convert(const Constants& constants, uint32_t block_len, const ParallelFor& parallel, ConvertedWeights* out) {
  const Converter converter(constants, block_len);
  out->codes.reset(new uint8_t[constants.n * converter.column_bytes()]);
  out->scales.resize(constants.n * converter.k_blocks());
  // Absent zero points mean 0, which is what weights without any mean once signed codes are moved up.
  const bool zero_points = constants.zero_points != nullptr || !constants.type.is_signed;
  if (zero_points) out->zero_points.resize(constants.n * converter.zero_point_bytes());

  const size_t task_columns = converter.task_columns();
  const size_t tasks = constants.n / task_columns + (constants.n % task_columns != 0);
  parallel(tasks, [&](size_t task) {
    const size_t first = task * task_columns;
    const size_t columns = std::min(task_columns, constants.n - first);
    converter.ConvertCodes(first, columns, out->codes.get());
    converter.ConvertScales(first, columns, out->scales.data());
    if (zero_points) converter.ConvertZeroPoints(first, columns, out->zero_points.data());
  });

  out->weights = {.n = constants.n, .k = constants.k, .bits = constants.type.bits, .block_len = block_len};
  out->weights.codes = out->codes.get();
  out->weights.scales = out->scales.data();
  out->weights.zero_points = zero_points ? out->zero_points.data() : nullptr;
}

}  // namespace onnxruntime_mlas::provider::dequantize_matmul
