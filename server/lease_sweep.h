// Ends resident sequences whose leases are over, so that their pages come back though nobody asks for them.
#ifndef TESSERA_SERVER_LEASE_SWEEP_H_
#define TESSERA_SERVER_LEASE_SWEEP_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/clock/clock.h"
#include "server/request/resident_cache.h"
#include "server/rpc/deadline_watch.h"

namespace tessera {

// Works on the watch's thread until the watch is stopped; outlives that. Other threads may only start it.
class LeaseSweep {
 public:
  // From one sweep to the next, and the most sequences that one ends in each cache: both bound what a sweep costs.
  static constexpr absl::Duration kPeriod = absl::Milliseconds(500);
  static constexpr int64_t kMostAtOnce = 1024;

  // The watch and the clock outlive the sweep.
  LeaseSweep(DeadlineWatch* watch, const Clock* clock) : watch_(watch), clock_(clock) {}
  LeaseSweep(const LeaseSweep&) = delete;
  LeaseSweep& operator=(const LeaseSweep&) = delete;

  // REQUIRES: called once.
  void Start(std::vector<ResidentCachePtr> caches) {
    caches_ = std::move(caches);
    if (!caches_.empty()) Arm();
  }

 private:
  void Arm() {
    watch_->Add(clock_->Now() + kPeriod, [this] {
      for (const ResidentCachePtr& cache : caches_) cache->sequences().Expire(kMostAtOnce);
      Arm();
    });
  }

  DeadlineWatch* const watch_;
  const Clock* const clock_;
  std::vector<ResidentCachePtr> caches_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_LEASE_SWEEP_H_
