// Packed weights that sessions of this process have in common.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "provider/core/aligned_buffer.h"

namespace onnxruntime_mlas::provider {

struct SharedPacked {
  std::span<const std::byte> bytes;   // a whole packed buffer
  std::shared_ptr<const void> owner;  // keeps them in memory
};

// The packed buffer itself, or one with the very same bytes that a node of this or another session holds already: then
// `packed` is let go. Weights are compared after packing, byte by byte, so that no two different ones are ever mixed
// up.
SharedPacked SharePacked(SharedPacked packed);
SharedPacked SharePacked(AlignedBuffer buffer);

}  // namespace onnxruntime_mlas::provider
