// Packed weights that sessions of this process have in common.
#pragma once

#include <memory>

#include "provider/core/aligned_buffer.h"

namespace onnxruntime_mlas::provider {

using SharedPacked = std::shared_ptr<const AlignedBuffer>;

// The packed buffer itself, or one with the very same bytes that a node of this or another session holds already: then
// `buffer` is freed. Weights are compared after packing, byte by byte, so that no two different ones are ever mixed up.
SharedPacked SharePacked(AlignedBuffer buffer);

}  // namespace onnxruntime_mlas::provider
