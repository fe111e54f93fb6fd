#include "kernels/cpu/thread_pool.h"

#include <sched.h>

#include <algorithm>

#include "absl/base/internal/raw_logging.h"

namespace tessera {

// Lives on the stack of Run. Fields other than the cursor are guarded by the pool's mutex.
struct ThreadPool::Job {
  WorkCursor cursor;
  Participant participant;
  int helpers = 0;  // threads inside participant, without the caller

  bool idle() const { return helpers == 0; }
};

ThreadPool::ThreadPool(int threads) {
  ABSL_RAW_CHECK(threads >= 1, "a pool has at least its caller's thread");
  workers_.reserve(threads - 1);
  for (int i = 1; i < threads; ++i) workers_.emplace_back(&ThreadPool::Work, this);
}

ThreadPool::~ThreadPool() {
  {
    absl::MutexLock lock(&mutex_);
    ABSL_RAW_CHECK(open_jobs_.empty(), "destroyed while a job runs");
    stopping_ = true;
  }
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(int64_t items, Participant participant) {
  Job job{.cursor = WorkCursor(items), .participant = participant};
  const bool shared = items > 1 && !workers_.empty();
  if (shared) {
    absl::MutexLock lock(&mutex_);
    open_jobs_.push_back(&job);
  }
  participant(job.cursor);
  if (!shared) return;
  absl::MutexLock lock(&mutex_);
  open_jobs_.erase(std::remove(open_jobs_.begin(), open_jobs_.end(), &job), open_jobs_.end());
  mutex_.Await(absl::Condition(&job, &Job::idle));
}

ThreadPool::Job* ThreadPool::PickJob() {
  // A drained job is of no use to anyone; its caller need not find it in the list.
  open_jobs_.erase(
      std::remove_if(open_jobs_.begin(), open_jobs_.end(), [](const Job* job) { return job->cursor.empty(); }),
      open_jobs_.end());
  const auto least = std::min_element(open_jobs_.begin(), open_jobs_.end(),
                                      [](const Job* a, const Job* b) { return a->helpers < b->helpers; });
  return least == open_jobs_.end() ? nullptr : *least;
}

void ThreadPool::Work() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(this, &ThreadPool::HasWorkOrStops));
    if (stopping_) return;
    Job* job = PickJob();
    if (job == nullptr) continue;
    ++job->helpers;
    mutex_.Unlock();
    job->participant(job->cursor);
    mutex_.Lock();
    --job->helpers;
    // A participant may leave a job early (no scratch): it must not be picked again and again by the same thread.
    open_jobs_.erase(std::remove(open_jobs_.begin(), open_jobs_.end(), job), open_jobs_.end());
  }
}

int AvailableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace tessera
