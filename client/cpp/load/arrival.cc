#include "client/cpp/load/arrival.h"

#include <random>

namespace tessera::load {

std::vector<absl::Duration> PlanArrivals(ArrivalProcess process, double rate, absl::Duration duration, uint64_t seed) {
  std::vector<absl::Duration> arrivals;
  arrivals.reserve(static_cast<size_t>(rate * absl::ToDoubleSeconds(duration) * 1.05) + 16);
  if (process == ArrivalProcess::kConstant) {
    // A product and not a running sum, so that rounding does not add up to a drift.
    for (int64_t i = 0;; ++i) {
      const absl::Duration at = absl::Seconds(static_cast<double>(i) / rate);
      if (at >= duration) return arrivals;
      arrivals.push_back(at);
    }
  }
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(rate);
  for (double at = gap(random); absl::Seconds(at) < duration; at += gap(random)) arrivals.push_back(absl::Seconds(at));
  return arrivals;
}

}  // namespace tessera::load
