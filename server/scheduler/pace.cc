#include "server/scheduler/pace.h"

#include <algorithm>
#include <cmath>

#include "absl/base/internal/raw_logging.h"

namespace tessera {

void Pace::Start(double cost, absl::Time now) {
  Elapse(now);
  ++running_;
  cost_running_ += cost;
}

void Pace::Finish(absl::Time now) {
  const double cost = Leave(now);
  cost_done_ += cost;
}

void Pace::Stop(absl::Time now) { Leave(now); }

double Pace::Leave(absl::Time now) {
  ABSL_RAW_CHECK(running_ > 0, "no batch runs");
  Elapse(now);
  const double cost = cost_running_ / running_;
  --running_;
  cost_running_ = running_ == 0 ? 0 : cost_running_ - cost;
  return cost;
}

std::optional<absl::Duration> Pace::TimeFor(double cost) const {
  if (cost_done_ <= 0) return std::nullopt;
  return absl::Seconds(cost * busy_seconds_ / cost_done_);
}

void Pace::Elapse(absl::Time now) {
  if (running_ > 0) {
    const double seconds = std::max(absl::ToDoubleSeconds(now - last_), 0.0);
    const double decay = std::exp(-seconds / absl::ToDoubleSeconds(kMemory));
    cost_done_ *= decay;
    busy_seconds_ = busy_seconds_ * decay + seconds;
  }
  last_ = now;
}

}  // namespace tessera
