// The library owns no threads: whoever calls it hands over a way to run `count` independent tasks.
#pragma once

#include <cstddef>
#include <type_traits>

namespace onnxruntime_mlas {

struct ParallelFor {
  using Task = void (*)(void* task_context, size_t index);
  // Runs task(task_context, i) once for every i in [0, count), in any order and on any threads, and returns when all
  // are done.
  using Runner = void (*)(void* runner_context, size_t count, Task task, void* task_context);

  Runner runner = nullptr;  // null: run the tasks in order on the calling thread
  void* runner_context = nullptr;

  template <class Body>
  void operator()(size_t count, Body&& body) const {
    using Plain = std::remove_reference_t<Body>;
    if (runner == nullptr || count <= 1) {
      for (size_t i = 0; i < count; ++i) body(i);
      return;
    }
    runner(
        runner_context, count, [](void* context, size_t index) { (*static_cast<Plain*>(context))(index); },
        const_cast<std::remove_const_t<Plain>*>(&body));
  }
};

}  // namespace onnxruntime_mlas
