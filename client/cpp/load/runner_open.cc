#include <algorithm>
#include <vector>

#include "client/cpp/load/runner.h"

namespace tessera::load {
namespace {

// How often a wait for a distant due time looks whether the run was stopped.
constexpr absl::Duration kStopCheck = absl::Milliseconds(50);

// Sleeps until `time`; returns false where the run was stopped before.
bool PaceUntil(absl::Duration time, const Dispatcher& dispatcher) {
  LoadClock* const clock = dispatcher.clock();
  while (!dispatcher.stopped()) {
    const absl::Duration now = clock->Now();
    if (now >= time) return true;
    clock->SleepUntil(std::min(time, now + kStopCheck));
  }
  return false;
}

}  // namespace

RunStats RunOpenLoop(const OpenLoad& load, const RunLength& length, Dispatcher* dispatcher) {
  std::vector<absl::Duration> arrivals =
      PlanArrivals(load.process, load.rate, length.warm_up + length.measured, load.seed);
  bool bounded = false;
  if (length.max_requests > 0) {
    const auto measured = std::lower_bound(arrivals.begin(), arrivals.end(), length.warm_up);
    bounded = arrivals.end() - measured > length.max_requests;
    if (bounded) arrivals.erase(measured + length.max_requests, arrivals.end());
  }

  LoadClock* const clock = dispatcher->clock();
  const absl::Duration start = clock->Now();
  const absl::Duration until = start + length.warm_up + length.measured;
  dispatcher->recorder()->OpenWindow(start + length.warm_up, until);
  for (const absl::Duration arrival : arrivals) {
    if (!PaceUntil(start + arrival, *dispatcher)) break;
    dispatcher->SendOrDrop(start + arrival, load.max_in_flight);
  }
  if (!bounded) PaceUntil(until, *dispatcher);
  dispatcher->AwaitIdle();
  return dispatcher->recorder()->CloseWindow(clock->Now());
}

}  // namespace tessera::load
