// When an open loop sends: decided before the run starts, so that no answer, however late, can delay a request.
#ifndef TESSERA_CLIENT_CPP_LOAD_ARRIVAL_H_
#define TESSERA_CLIENT_CPP_LOAD_ARRIVAL_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace tessera::load {

enum class ArrivalProcess {
  kConstant,  // every 1 / rate
  kPoisson,   // gaps drawn from an exponential distribution of mean 1 / rate: independent users
};

// Send times as offsets from the start, ascending, all in [0, duration). `rate` is in requests a second. The same seed
// gives the same times. REQUIRES: rate > 0.
std::vector<absl::Duration> PlanArrivals(ArrivalProcess process, double rate, absl::Duration duration, uint64_t seed);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_ARRIVAL_H_
