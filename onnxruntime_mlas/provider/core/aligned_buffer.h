// Memory that the kernels accept: kPackedAlignment-aligned.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "onnxruntime_mlas/packed_buffer.h"
#include "onnxruntime_mlas/packed_memory.h"
#include "provider/core/ort.h"

namespace onnxruntime_mlas::provider {

// Owned by a compiled node for as long as the session lives. Not initialised.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes) : data_(AllocatePackedMemory(bytes), Free{bytes}), bytes_(bytes) {
    if (data_ == nullptr) throw std::bad_alloc();
  }

  std::byte* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    size_t bytes;
    void operator()(std::byte* data) const { FreePackedMemory(data, bytes); }
  };
  std::unique_ptr<std::byte, Free> data_{nullptr, Free{0}};
  size_t bytes_ = 0;
};

// Scratch for one run, from the session's own allocator: it counts towards what ONNX Runtime reports, and comes from
// its arena where that is enabled.
class Scratch {
 public:
  Scratch(OrtKernelContext* context, const OrtMemoryInfo* memory_info) {
    Ort::ThrowOnError(Ort::GetApi().KernelContext_GetAllocator(context, memory_info, &allocator_));
  }
  ~Scratch() {
    for (void* block : blocks_) {
      if (block != nullptr) allocator_->Free(allocator_, block);
    }
    Ort::GetApi().ReleaseAllocator(allocator_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // At most kMaxBlocks times in the life of this object. Null for 0 bytes.
  std::byte* Allocate(size_t bytes) {
    if (bytes == 0) return nullptr;
    // The allocator promises less than kPackedAlignment.
    size_t space = bytes + kPackedAlignment - 1;
    void* block = allocator_->Alloc(allocator_, space);
    if (block == nullptr) throw std::bad_alloc();
    blocks_[used_++] = block;
    return static_cast<std::byte*>(std::align(kPackedAlignment, bytes, block, space));
  }

  static constexpr size_t kMaxBlocks = 3;

 private:
  OrtAllocator* allocator_ = nullptr;
  void* blocks_[kMaxBlocks] = {};
  size_t used_ = 0;
};

}  // namespace onnxruntime_mlas::provider
