#include "onnxruntime_mlas/packed_buffer.h"

#include <cstring>
#include <string>

namespace onnxruntime_mlas {

namespace {
constexpr uint64_t kPrime = 0x00000100000001B3;  // of 64-bit FNV-1a
constexpr uint64_t kBasis = 0xCBF29CE484222325;
constexpr size_t kLanes = 4;  // independent chains, so that the multiply's latency is hidden
}  // namespace

// FNV-1a over 64-bit words, dealt in turn to four chains that are then folded into one with the length.
uint64_t Fingerprint(const std::byte* data, size_t bytes) {
  uint64_t lanes[kLanes];
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = kBasis + i;
  const size_t whole = bytes / (8 * kLanes) * (8 * kLanes);
  for (size_t offset = 0; offset < whole; offset += 8 * kLanes) {
    uint64_t words[kLanes];
    std::memcpy(words, data + offset, sizeof(words));
    for (size_t i = 0; i < kLanes; ++i) {
      lanes[i] = (lanes[i] ^ words[i]) * kPrime;
      // The product carries only upwards: bring the top bits back, or a flip there could vanish in the end.
      lanes[i] ^= lanes[i] >> 32;
    }
  }
  uint64_t sum = kBasis ^ bytes;
  for (uint64_t lane : lanes) sum = (sum ^ lane) * kPrime;
  for (size_t offset = whole; offset < bytes; ++offset) {
    sum = (sum ^ static_cast<uint64_t>(data[offset])) * kPrime;
  }
  return sum;
}

uint64_t PackedChecksum(PackedHeader header, const std::byte* payload) {
  header.checksum = 0;
  return Fingerprint(reinterpret_cast<const std::byte*>(&header), sizeof(header)) ^
         Fingerprint(payload, header.payload_bytes);
}

Status CheckPackedHeader(const std::byte* buffer, size_t bytes, bool verify_checksum, PackedHeader* header) {
  if (buffer == nullptr || bytes < sizeof(PackedHeader)) {
    return Status::Error("packed buffer has " + std::to_string(buffer == nullptr ? 0 : bytes) +
                         " bytes, fewer than its header of " + std::to_string(sizeof(PackedHeader)) +
                         "; it was cut short: pack the weights again");
  }
  if (reinterpret_cast<uintptr_t>(buffer) % kPackedAlignment != 0) {
    return Status::Error("packed buffer must start at a multiple of " + std::to_string(kPackedAlignment) +
                         " bytes; copy it to an aligned allocation");
  }
  std::memcpy(header, buffer, sizeof(PackedHeader));
  if (std::memcmp(header->magic, kPackedMagic, sizeof(kPackedMagic)) != 0) {
    return Status::Error("not a packed buffer: its first bytes are not \"ORTMLAS\"");
  }
  if (header->version != kPackedVersion) {
    return Status::Error("packed buffer has version " + std::to_string(header->version) + ", this build reads " +
                         std::to_string(kPackedVersion) + "; pack the weights again");
  }
  for (uint8_t byte : header->reserved) {
    if (byte != 0) return Status::Error("packed buffer's reserved header bytes are not zero; pack the weights again");
  }
  if (header->payload_bytes != bytes - sizeof(PackedHeader)) {
    return Status::Error("packed buffer's header says " + std::to_string(header->payload_bytes) +
                         " bytes of payload, the buffer holds " + std::to_string(bytes - sizeof(PackedHeader)) +
                         "; it was cut short or joined with other data: pack the weights again");
  }
  if (verify_checksum && PackedChecksum(*header, buffer + sizeof(PackedHeader)) != header->checksum) {
    return Status::Error("packed buffer's checksum does not match: its contents were damaged; pack the weights again");
  }
  return {};
}

}  // namespace onnxruntime_mlas
