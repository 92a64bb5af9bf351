// Memory for packed buffers.
#pragma once

#include <cstddef>

namespace onnxruntime_mlas {

// At least kPackedAlignment-aligned and not initialised; null when there is none to be had. Large buffers ask for huge
// pages where the system gives them on request: one row of A reads a matrix once, and looking up 4 KiB pages for it
// costs more than the arithmetic leaves time for. No more than `bytes` become resident.
std::byte* AllocatePackedMemory(size_t bytes);
// `bytes` as it was allocated.
void FreePackedMemory(std::byte* memory, size_t bytes);

}  // namespace onnxruntime_mlas
