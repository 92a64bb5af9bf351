// A compiled node as an EPContext model keeps it.
#pragma once

#include <memory>

#include "provider/core/stored_blob.h"
#include "provider/ops/matmul_nbits/kernel.h"

namespace onnxruntime_mlas::provider::matmul_nbits {

// A kernel that lacks only compute, isas and what its slots' indices are in a session: they are those of the node that
// was stored. Checks everything before it is used. Throws Ort::Exception that says what is wrong with the blob.
std::unique_ptr<Kernel> Restore(const StoredBlob& blob);

}  // namespace onnxruntime_mlas::provider::matmul_nbits
