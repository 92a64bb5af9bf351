// Gives back memory that holds nothing but a copy of a file.
#pragma once

#include <cstddef>

namespace onnxruntime_mlas::provider {

// Takes those whole pages of a range out of this process that come from a mapped file and were never written to.
// Reading them later brings them back, from the system's file cache if they are still there: nothing changes but the
// memory in use. All other pages stay. Does nothing where the system can't tell which is which (Linux alone can).
void ReleaseFilePages(const void* data, size_t bytes) noexcept;

}  // namespace onnxruntime_mlas::provider
