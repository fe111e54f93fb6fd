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

void Lookout::Look() {
  const absl::Time end = absl::Now() + longest_;
  bool come = false;
  while (!(come = arrivals_.load(std::memory_order_acquire) != seen_) && absl::Now() < end) std::this_thread::yield();
  misses_ = come ? 0 : misses_ + 1;
  if (misses_ == kMisses) {
    misses_ = 0;
    rests_ = kRests;
  }
}

}  // namespace tessera
