// Runs tasks at given times, on one thread of its own: deadlines, backoff, and work that must leave gRPC's threads.
//
// Thread-safe. Tasks run one at a time, by time and then in order of scheduling, with no lock held; they must not
// block.
#ifndef TESSERA_CLIENT_CPP_TESSERA_TIMER_QUEUE_H_
#define TESSERA_CLIENT_CPP_TESSERA_TIMER_QUEUE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tessera {

class TimerQueue {
 public:
  using Task = std::function<void()>;
  // Names a scheduled task.
  using Timer = std::pair<absl::Time, uint64_t>;

  TimerQueue();
  // Waits for the task that is running; those not begun never run. REQUIRES: not called from a task.
  ~TimerQueue();

  Timer Schedule(absl::Time when, Task task) ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs `task` as soon as the thread is free.
  void Post(Task task) { Schedule(absl::InfinitePast(), std::move(task)); }

  // True where the task has been taken back; false where it is running or has run.
  bool Cancel(const Timer& timer) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  absl::CondVar changed_;  // a task is due before asleep_until_, or stopping_
  std::map<Timer, Task> tasks_ ABSL_GUARDED_BY(mutex_);
  uint64_t scheduled_ ABSL_GUARDED_BY(mutex_) = 0;
  // When the thread looks again by itself; in the past while it is awake. It stays where it is when the task that it
  // waits for is taken back: most deadlines are, and each would wake the thread otherwise.
  absl::Time asleep_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_TIMER_QUEUE_H_
