#include "client/cpp/tessera/timer_queue.h"

#include "absl/time/clock.h"

namespace tessera {

TimerQueue::TimerQueue() : thread_([this] { Run(); }) {}

TimerQueue::~TimerQueue() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.Signal();
  }
  thread_.join();
}

TimerQueue::Timer TimerQueue::Schedule(absl::Time when, Task task) {
  absl::MutexLock lock(&mutex_);
  const Timer timer(when, ++scheduled_);
  tasks_.emplace(timer, std::move(task));
  if (when < asleep_until_) changed_.Signal();
  return timer;
}

bool TimerQueue::Cancel(const Timer& timer) {
  Task dropped;  // destroyed without the lock: it may own anything
  absl::MutexLock lock(&mutex_);
  const auto place = tasks_.find(timer);
  if (place == tasks_.end()) return false;
  dropped = std::move(place->second);
  tasks_.erase(place);
  return true;
}

void TimerQueue::Run() {
  while (true) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      while (!stopping_ && (tasks_.empty() || tasks_.begin()->first.first > absl::Now())) {
        asleep_until_ = tasks_.empty() ? absl::InfiniteFuture() : tasks_.begin()->first.first;
        changed_.WaitWithDeadline(&mutex_, asleep_until_);
      }
      asleep_until_ = absl::InfinitePast();
      if (stopping_) return;
      task = std::move(tasks_.begin()->second);
      tasks_.erase(tasks_.begin());
    }
    task();
  }
}

}  // namespace tessera
