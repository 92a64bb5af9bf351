#include "provider/core/packed_cache.h"

#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace onnxruntime_mlas::provider {
namespace {

struct Cache {
  std::mutex mutex;
  std::unordered_multimap<uint64_t, std::weak_ptr<const AlignedBuffer>> buffers;  // by checksum
};

// Never destroyed: sessions may end after static objects do.
Cache& TheCache() {
  static Cache& cache = *new Cache;
  return cache;
}

uint64_t ChecksumOf(const AlignedBuffer& buffer) {
  PackedHeader header;
  std::memcpy(&header, buffer.data(), sizeof(header));
  return header.checksum;
}

}  // namespace

SharedPacked SharePacked(AlignedBuffer buffer) {
  Cache& cache = TheCache();
  const uint64_t checksum = ChecksumOf(buffer);
  const std::lock_guard lock(cache.mutex);
  auto [candidate, end] = cache.buffers.equal_range(checksum);
  while (candidate != end) {
    SharedPacked held = candidate->second.lock();
    if (held == nullptr) {
      candidate = cache.buffers.erase(candidate);
      continue;
    }
    if (held->bytes() == buffer.bytes() && std::memcmp(held->data(), buffer.data(), buffer.bytes()) == 0) return held;
    ++candidate;
  }
  auto shared = std::make_shared<const AlignedBuffer>(std::move(buffer));
  cache.buffers.emplace(checksum, shared);
  return shared;
}

}  // namespace onnxruntime_mlas::provider
