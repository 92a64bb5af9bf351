// The header that starts every packed buffer, so that a truncated, damaged or foreign one is refused before it is read.
//
//   byte 0     PackedHeader (128 bytes, little endian)
//   byte 128   payload, laid out by the format (qnbit/layout.h)
#pragma once

#include <cstddef>
#include <cstdint>

#include "onnxruntime_mlas/status.h"

namespace onnxruntime_mlas {

inline constexpr size_t kPackedAlignment = 64;  // of the buffer's first byte; one ZMM register or cache line
inline constexpr uint32_t kPackedVersion = 1;
inline constexpr uint32_t kFamilyQnbit = 1;
inline constexpr uint32_t kFormatQuad = 1;
inline constexpr uint32_t kFormatColumn = 2;

inline constexpr char kPackedMagic[8] = "ORTMLAS";

struct PackedHeader {
  char magic[8];             // kPackedMagic
  uint32_t version;          // kPackedVersion
  uint32_t family;           // kFamilyQnbit
  uint32_t format;           // kFormatQuad, kFormatColumn
  uint32_t bits;             // weight width
  uint64_t n;                // columns, before padding
  uint64_t k;                // rows of the dequantised matrix, before padding
  uint32_t block_len;        // k per scale
  uint32_t scale_type;       // qnbit::ScaleType
  uint32_t zero_point_kind;  // qnbit::ZeroPointKind
  uint32_t uniform_zero_point;
  uint64_t payload_bytes;
  uint64_t checksum;     // PackedChecksum
  uint8_t reserved[56];  // zero
};
static_assert(sizeof(PackedHeader) == 128);

// 64-bit checksum of any bytes: FNV-1a over 64-bit words in four chains.
uint64_t Fingerprint(const std::byte* data, size_t bytes);

// 64-bit checksum of the header, read as if its own checksum field were 0, and the payload: the exclusive or of both
// parts' sums. Catches damage, not forgery.
uint64_t PackedChecksum(PackedHeader header, const std::byte* payload);

// Checks the family-independent part: size, alignment, magic, version, payload length, reserved bytes; and the
// checksum, which reads the whole payload, if asked.
Status CheckPackedHeader(const std::byte* buffer, size_t bytes, bool verify_checksum, PackedHeader* header);

}  // namespace onnxruntime_mlas
