// The three ways to offer load. Each drives a dispatcher from the calling thread and returns when every answer is in.
#ifndef TESSERA_CLIENT_CPP_LOAD_RUNNER_H_
#define TESSERA_CLIENT_CPP_LOAD_RUNNER_H_

#include <cstdint>

#include "absl/time/time.h"
#include "client/cpp/load/arrival.h"
#include "client/cpp/load/dispatcher.h"
#include "client/cpp/load/run_stats.h"

namespace tessera::load {

// How long a run lasts.
struct RunLength {
  absl::Duration warm_up = absl::ZeroDuration();       // sent but not measured
  absl::Duration measured = absl::InfiniteDuration();  // after the warm-up
  int64_t max_requests = 0;                            // measured ones; 0 is no bound
};

// Closed loop: `callers` callers, each with one call in flight and the next one due the moment it is answered. The rate
// follows from the latency, so a slow target is asked less: good for capacity, misleading for latency under a given
// load. REQUIRES: callers > 0; the length is bounded in time or requests.
RunStats RunClosedLoop(int callers, const RunLength& length, Dispatcher* dispatcher);

// What an open loop offers.
struct OpenLoad {
  ArrivalProcess process = ArrivalProcess::kPoisson;
  double rate = 100;             // requests a second
  int64_t max_in_flight = 4096;  // protects the client; what is due beyond it is dropped, and counted
  uint64_t seed = 1;
};

// Open loop: requests are due at times fixed before the run, whatever the answers do. Latency counts from the due time,
// so a stall of target or client shows in every request that was due during it (no coordinated omission).
// REQUIRES: rate > 0; length.measured is finite.
RunStats RunOpenLoop(const OpenLoad& load, const RunLength& length, Dispatcher* dispatcher);

// A service level objective.
struct Slo {
  absl::Duration p99 = absl::Milliseconds(100);
  double error_fraction = 0.01;  // failed and dropped, of those due
};

// How a ramp searches.
struct RampPlan {
  ArrivalProcess process = ArrivalProcess::kPoisson;
  double first_rate = 10;
  double growth = 1.5;    // from step to step, over 1
  double max_rate = 1e6;  // the ramp ends after it
  int refinements = 3;    // bisections between the last rate that met the SLO and the first that broke it
  RunLength step;         // each step's own warm-up and length
  int64_t max_in_flight = 4096;
  uint64_t seed = 1;
  Slo slo;
};

// Ramp: open-loop steps of rising rate until one breaks the SLO, then bisections around the break. A step also breaks
// it when under 90 % of what was offered is answered in time: a queue is then growing, whatever its latency so far.
// REQUIRES: as RunOpenLoop for each step; growth > 1.
RampResult RunRamp(const RampPlan& plan, absl::Duration origin, Dispatcher* dispatcher);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_RUNNER_H_
