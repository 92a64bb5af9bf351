#include "provider/core/load_threads.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace onnxruntime_mlas::provider {
namespace {

// Packing is bound by memory traffic; more threads than this stop helping and cost start-up time.
constexpr size_t kMaxThreads = 16;

void Run(void*, size_t count, ParallelFor::Task task, void* task_context) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) task(task_context, i);
  };
  const size_t threads = std::min({count, kMaxThreads, size_t{std::max(1u, std::thread::hardware_concurrency())}});
  std::vector<std::thread> helpers;
  helpers.reserve(threads);
  try {
    for (size_t i = 1; i < threads; ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads to be had: those that started, and this one, do all the tasks.
  }
  work();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace

ParallelFor LoadParallelFor() { return {.runner = Run, .runner_context = nullptr}; }

}  // namespace onnxruntime_mlas::provider
