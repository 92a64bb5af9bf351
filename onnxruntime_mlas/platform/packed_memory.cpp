#include "onnxruntime_mlas/packed_memory.h"

#include <new>

#include "onnxruntime_mlas/packed_buffer.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace onnxruntime_mlas {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

std::align_val_t AlignmentOf(size_t bytes) {
  return std::align_val_t{bytes >= 2 * kHugePage ? kHugePage : kPackedAlignment};
}

}  // namespace

std::byte* AllocatePackedMemory(size_t bytes) {
  const std::align_val_t alignment = AlignmentOf(bytes);
  auto* const memory = static_cast<std::byte*>(::operator new(bytes, alignment, std::nothrow));
#if defined(__linux__)
  // Whole huge pages only: a partial one would be resident in full. Without effect where huge pages are off.
  if (memory != nullptr && alignment == std::align_val_t{kHugePage}) {
    (void)madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  }
#endif
  return memory;
}

void FreePackedMemory(std::byte* memory, size_t bytes) { ::operator delete(memory, AlignmentOf(bytes)); }

}  // namespace onnxruntime_mlas
