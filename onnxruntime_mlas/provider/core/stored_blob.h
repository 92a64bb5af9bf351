// What a compiled node keeps in an EPContext model: a small head of its own and a packed buffer.
//
//   head     `head` bytes, a multiple of kPackedAlignment, laid out by the operator
//   packed   a packed buffer (packed_buffer.h), or nothing
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace onnxruntime_mlas::provider {

struct BlobToStore {
  std::vector<std::byte> head;
  std::span<const std::byte> packed;  // of the node, which outlives this

  size_t bytes() const { return head.size() + packed.size(); }
};

struct StoredBlob {
  std::span<const std::byte> bytes;   // at a multiple of kPackedAlignment
  std::shared_ptr<const void> owner;  // keeps `bytes` in memory, e.g. a file's mapping
};

}  // namespace onnxruntime_mlas::provider
