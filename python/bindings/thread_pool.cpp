#include "thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace onnxruntime_mlas::bindings {
namespace {

struct Job {
  size_t count;
  ParallelFor::Task task;
  void* task_context;
  size_t seats;                 // workers that may still join; guarded by the pool's mutex
  size_t working = 0;           // workers inside; guarded by the pool's mutex
  std::atomic<size_t> next{0};  // first index that nobody has taken

  void Work() {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) task(task_context, i);
  }
};

// One job at a time. The caller works too and waits only for workers that did join, so a job ends even where no worker
// exists any more, as in a forked child.
class Pool {
 public:
  void Run(Job& job) {
    std::lock_guard one_job(jobs_);
    {
      std::lock_guard lock(mutex_);
      for (; workers_ < job.seats; ++workers_) std::thread([this] { Serve(); }).detach();
      current_ = &job;
    }
    wake_.notify_all();
    job.Work();
    std::unique_lock lock(mutex_);
    current_ = nullptr;
    idle_.wait(lock, [&] { return job.working == 0; });
  }

 private:
  void Serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return current_ != nullptr && current_->seats > 0; });
      Job& job = *current_;
      --job.seats;
      ++job.working;
      lock.unlock();
      job.Work();
      lock.lock();
      if (--job.working == 0) idle_.notify_all();
    }
  }

  std::mutex jobs_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  Job* current_ = nullptr;
  size_t workers_ = 0;
};

// Never destroyed: detached workers may still wait on it while the process exits.
Pool& SharedPool() {
  static Pool* pool = new Pool;
  return *pool;
}

}  // namespace

void ThreadedRunner::Run(void* self, size_t count, ParallelFor::Task task, void* task_context) {
  const size_t threads = static_cast<ThreadedRunner*>(self)->threads_;
  Job job{.count = count, .task = task, .task_context = task_context, .seats = std::min(threads, count) - 1};
  SharedPool().Run(job);
}

}  // namespace onnxruntime_mlas::bindings
