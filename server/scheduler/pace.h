// How fast the executors get through work.
#ifndef TESSERA_SERVER_SCHEDULER_PACE_H_
#define TESSERA_SERVER_SCHEDULER_PACE_H_

#include <optional>

#include "absl/time/time.h"

namespace tessera {

// Cost per second while at least one batch runs, over about the last kMemory of such time; idle time does not count.
// Not thread-safe. Times must not run backwards; where they do, no time has passed.
class Pace {
 public:
  static constexpr absl::Duration kMemory = absl::Seconds(10);

  // A batch of `cost` starts.
  void Start(double cost, absl::Time now);
  // One of the running batches ends. Which one is not known: it is taken to be of average cost. REQUIRES: running() >
  // 0.
  void Finish(absl::Time now);
  // Likewise, but it was stopped before its end: its time counts, its cost does not.
  void Stop(absl::Time now);

  int running() const { return running_; }
  double cost_running() const { return cost_running_; }
  // Time that `cost` takes, or nothing where no batch has ended yet.
  std::optional<absl::Duration> TimeFor(double cost) const;

 private:
  void Elapse(absl::Time now);
  // One batch fewer runs; returns its cost.
  double Leave(absl::Time now);

  int running_ = 0;
  double cost_running_ = 0;
  absl::Time last_ = absl::InfinitePast();
  // Decayed sums.
  double cost_done_ = 0;
  double busy_seconds_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_SCHEDULER_PACE_H_
