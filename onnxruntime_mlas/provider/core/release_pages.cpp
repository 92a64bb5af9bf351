#include "provider/core/release_pages.h"

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#endif

namespace onnxruntime_mlas::provider {

#if defined(__linux__)

namespace {

// Fields of /proc/self/pagemap, which holds one number per page (Documentation/admin-guide/mm/pagemap.rst).
constexpr uint64_t kPresent = uint64_t{1} << 63;
constexpr uint64_t kSwapped = uint64_t{1} << 62;
constexpr uint64_t kOfFile = uint64_t{1} << 61;

// A page written to by copy on write is no longer the file's, and says so. One that isn't in memory has nothing to
// give.
bool HoldsOnlyAFile(uint64_t page) {
  if ((page & kSwapped) != 0) return false;
  return (page & kPresent) == 0 || (page & kOfFile) != 0;
}

}  // namespace

void ReleaseFilePages(const void* data, size_t bytes) noexcept {
  constexpr size_t kPagesPerRead = 512;
  const long page_size = sysconf(_SC_PAGESIZE);
  if (page_size <= 0) return;
  const auto page_bytes = static_cast<uintptr_t>(page_size);
  const auto begin = reinterpret_cast<uintptr_t>(data);
  uintptr_t page = (begin + page_bytes - 1) / page_bytes;
  const uintptr_t end = (begin + bytes) / page_bytes;
  if (page >= end) return;
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pagemap < 0) return;
  while (page < end) {
    uint64_t pages[kPagesPerRead];
    const size_t count = std::min<size_t>(end - page, kPagesPerRead);
    const auto wanted = static_cast<ssize_t>(count * sizeof(uint64_t));
    if (pread(pagemap, pages, static_cast<size_t>(wanted), static_cast<off_t>(page * sizeof(uint64_t))) != wanted)
      break;
    // Constants don't change, so that what holds now holds until the next call.
    if (!std::all_of(pages, pages + count, HoldsOnlyAFile)) break;
    const auto* const first = static_cast<const std::byte*>(data) + (page * page_bytes - begin);
    (void)madvise(const_cast<std::byte*>(first), count * page_bytes, MADV_DONTNEED);
    page += count;
  }
  (void)close(pagemap);
}

#else

void ReleaseFilePages(const void*, size_t) noexcept {}

#endif

}  // namespace onnxruntime_mlas::provider
