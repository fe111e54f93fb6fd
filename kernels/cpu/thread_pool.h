// Threads that share out numbered items of work.
//
// A call to Run is one job of `items` items. Every thread that takes part in it, the caller among them, calls the job's
// `participant` once; the participant draws item numbers from the cursor until it is empty. Items are drawn in
// ascending order, so a job whose items are sorted by cost, largest first, ends with all threads at nearly the same
// time. Several jobs may run at once: idle threads join the one with the fewest threads.
#ifndef TESSERA_KERNELS_CPU_THREAD_POOL_H_
#define TESSERA_KERNELS_CPU_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"

namespace tessera {

// Hands out 0, 1, .., items - 1, each once. Thread-safe.
class WorkCursor {
 public:
  explicit WorkCursor(int64_t items) : items_(items) {}

  // The next item, or -1 when there is none left.
  int64_t Next() {
    const int64_t item = next_.fetch_add(1, std::memory_order_relaxed);
    return item < items_ ? item : -1;
  }

  bool empty() const { return next_.load(std::memory_order_relaxed) >= items_; }

 private:
  const int64_t items_;
  std::atomic<int64_t> next_{0};
};

// Thread-safe.
class ThreadPool {
 public:
  using Participant = absl::FunctionRef<void(WorkCursor&)>;

  // `threads` counts the caller of Run: threads - 1 are started. REQUIRES: threads >= 1.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  // REQUIRES: no Run in progress.
  ~ThreadPool();

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Returns when the caller's participant has returned and no thread is inside `participant` any more. The caller
  // always takes part: as long as its own participant draws to the end, every item is done, even where other threads
  // leave early (for want of memory, say); where it does not, the rest is left undone.
  void Run(int64_t items, Participant participant);

 private:
  struct Job;

  void Work();
  // The open job with the fewest threads, or null.
  Job* PickJob() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWorkOrStops() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !open_jobs_.empty(); }

  absl::Mutex mutex_;
  std::vector<Job*> open_jobs_ ABSL_GUARDED_BY(mutex_);  // those that another thread may join
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;
};

// Cores that this process may run on.
int AvailableCores();

}  // namespace tessera

#endif  // TESSERA_KERNELS_CPU_THREAD_POOL_H_
