#include "server/scheduler/lookout.h"

#include <thread>

#include "absl/time/clock.h"

namespace tessera {

bool Lookout::Begin() {
  if (longest_ <= absl::ZeroDuration() || looking_.exchange(true, std::memory_order_acq_rel)) return false;
  if (rests_ > 0) {
    --rests_;
    End();
    return false;
  }
  seen_ = arrivals_.load(std::memory_order_acquire);
  return true;
}

bool Lookout::Hand(absl::FunctionRef<void()> task) {
  Task mine{&task};
  Task* none = nullptr;
  if (!task_.compare_exchange_strong(none, &mine, std::memory_order_acq_rel)) return false;
  while (!mine.done.load(std::memory_order_acquire)) std::this_thread::yield();
  return true;
}

bool Lookout::CallLastTask() {
  Task* const task = task_.exchange(&closed_, std::memory_order_acq_rel);
  if (task == nullptr || task == &closed_) return false;
  (*task->call)();
  task->done.store(true, std::memory_order_release);  // it is gone now
  return true;
}

void Lookout::Look(bool take_tasks) {
  const absl::Time end = absl::Now() + longest_;
  const auto come = [this] { return arrivals_.load(std::memory_order_acquire) != seen_; };
  bool called = false;
  Task* const open = take_tasks ? nullptr : &closed_;
  task_.store(open, std::memory_order_release);
  while (!come() && absl::Now() < end) {
    if (task_.load(std::memory_order_relaxed) != open) {
      called = CallLastTask();
      if (come()) break;
      task_.store(open, std::memory_order_release);
    }
    std::this_thread::yield();
  }
  called = CallLastTask() || called;
  misses_ = called || come() ? 0 : misses_ + 1;
  if (misses_ == kMisses) {
    misses_ = 0;
    rests_ = kRests;
  }
}

}  // namespace tessera
