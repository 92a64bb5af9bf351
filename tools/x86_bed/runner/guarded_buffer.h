// Memory between two inaccessible pages: a read or write past its end faults, and a write elsewhere is found by
// `Intact`.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

class GuardedBuffer {
 public:
  // The buffer ends at the guard page, but for the bytes that `alignment` (a power of two) costs.
  GuardedBuffer(size_t bytes, size_t alignment) : bytes_(bytes) {
    inner_bytes_ = (bytes + kPage - 1) / kPage * kPage;
    mapping_bytes_ = inner_bytes_ + 2 * kPage;
    void* mapping = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
      std::fprintf(stderr, "mmap of %zu bytes failed\n", mapping_bytes_);
      std::exit(1);
    }
    mapping_ = static_cast<uint8_t*>(mapping);
    inner_ = mapping_ + kPage;
    offset_ = (inner_bytes_ - bytes) & ~(alignment - 1);
    std::memset(inner_, kFill, inner_bytes_);
    mprotect(mapping_, kPage, PROT_NONE);
    mprotect(inner_ + inner_bytes_, kPage, PROT_NONE);
  }
  ~GuardedBuffer() { munmap(mapping_, mapping_bytes_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  template <class T>
  T* As() const {
    return reinterpret_cast<T*>(inner_ + offset_);
  }
  size_t bytes() const { return bytes_; }

  // Whether the bytes around the buffer are as they were made.
  bool Intact() const {
    const uint8_t* end = inner_ + offset_ + bytes_;
    return Untouched(inner_, offset_) && Untouched(end, static_cast<size_t>(inner_ + inner_bytes_ - end));
  }

  static constexpr uint8_t kFill = 0xA5;

 private:
  static constexpr size_t kPage = 4096;

  // At most a page: the buffer starts in the first one and ends in the last.
  static bool Untouched(const uint8_t* bytes, size_t count) {
    static const std::vector<uint8_t> fill(kPage, kFill);
    return std::memcmp(bytes, fill.data(), count) == 0;
  }

  size_t bytes_;
  size_t inner_bytes_;
  size_t mapping_bytes_;
  uint8_t* mapping_;
  uint8_t* inner_;
  size_t offset_;
};
