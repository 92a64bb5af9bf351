#include "provider/core/packed_cache.h"

#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace onnxruntime_mlas::provider {
namespace {

// Bytes that may be gone.
struct Entry {
  std::span<const std::byte> bytes;
  std::weak_ptr<const void> owner;
};

struct Cache {
  std::mutex mutex;
  std::unordered_multimap<uint64_t, Entry> entries;  // by checksum
};

// Never destroyed: sessions may end after static objects do.
Cache& TheCache() {
  static Cache& cache = *new Cache;
  return cache;
}

uint64_t ChecksumOf(std::span<const std::byte> packed) {
  PackedHeader header;
  std::memcpy(&header, packed.data(), sizeof(header));
  return header.checksum;
}

bool Equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.data() == b.data() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace

SharedPacked SharePacked(SharedPacked packed) {
  Cache& cache = TheCache();
  const uint64_t checksum = ChecksumOf(packed.bytes);
  const std::lock_guard lock(cache.mutex);
  auto [candidate, end] = cache.entries.equal_range(checksum);
  while (candidate != end) {
    const std::span<const std::byte> bytes = candidate->second.bytes;
    std::shared_ptr<const void> owner = candidate->second.owner.lock();
    if (owner == nullptr) {
      candidate = cache.entries.erase(candidate);
      continue;
    }
    if (Equal(bytes, packed.bytes)) return {bytes, std::move(owner)};
    ++candidate;
  }
  cache.entries.emplace(checksum, Entry{packed.bytes, packed.owner});
  return packed;
}

SharedPacked SharePacked(AlignedBuffer buffer) {
  const auto owner = std::make_shared<const AlignedBuffer>(std::move(buffer));
  return SharePacked(SharedPacked{{owner->data(), owner->bytes()}, owner});
}

}  // namespace onnxruntime_mlas::provider
