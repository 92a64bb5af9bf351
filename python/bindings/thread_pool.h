// Threads for the Python bindings: the kernel library owns none, it asks its caller for a ParallelFor.
#pragma once

#include <cstddef>

#include "onnxruntime_mlas/parallel_for.h"

namespace onnxruntime_mlas::bindings {

inline constexpr size_t kMaxThreads = 256;

// Runs tasks on the calling thread and up to `threads` - 1 persistent workers, which all instances share. `threads`
// must lie in [1, kMaxThreads].
class ThreadedRunner {
 public:
  explicit ThreadedRunner(size_t threads) : threads_(threads) {}

  // Valid as long as this object.
  ParallelFor parallel_for() {
    return threads_ <= 1 ? ParallelFor{} : ParallelFor{.runner = &ThreadedRunner::Run, .runner_context = this};
  }

 private:
  static void Run(void* self, size_t count, ParallelFor::Task task, void* task_context);

  size_t threads_;
};

}  // namespace onnxruntime_mlas::bindings
