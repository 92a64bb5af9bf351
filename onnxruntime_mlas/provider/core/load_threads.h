// Threads for the work of session creation, where ONNX Runtime offers a plugin none of its own.
#pragma once

#include "onnxruntime_mlas/parallel_for.h"

namespace onnxruntime_mlas::provider {

// Runs tasks on as many short-lived threads as this process may run at once (its CPU affinity counts). The session's
// intra_op_num_threads can't be read through the C API; packing gives the same bytes for any number of threads, so
// it is the load time alone that doesn't follow that option.
ParallelFor LoadParallelFor();

}  // namespace onnxruntime_mlas::provider
