#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/load/quantity_format.h"
#include "client/cpp/load/runner.h"

namespace tessera::load {
namespace {

// Under this share of the offered rate answered within the step, its queue is growing.
constexpr double kKeepsUp = 0.9;

// Steps with fewer requests due say too little about a growing queue: at 100, chance alone moves the rate by 10 %.
constexpr int64_t kEnoughToJudge = 400;

std::string BrokenBy(const RunStats& stats, double offered, const Slo& slo) {
  const GroupStats& total = stats.total;
  if (total.error_fraction() > slo.error_fraction) {
    return absl::StrFormat("errors %.2f%% > %.2f%%", 100 * total.error_fraction(), 100 * slo.error_fraction);
  }
  if (total.ok == 0) return "nothing was answered";
  if (absl::Nanoseconds(total.latency.Percentile(99)) > slo.p99) {
    return absl::StrCat("p99 ", FormatLatency(total.latency.Percentile(99)), " > ",
                        FormatLatency(absl::ToInt64Nanoseconds(slo.p99)));
  }
  if (total.due() >= kEnoughToJudge && total.requests_per_second < kKeepsUp * offered) {
    return absl::StrFormat("%.4g of %.4g/s answered", total.requests_per_second, offered);
  }
  return "";
}

}  // namespace

RampResult RunRamp(const RampPlan& plan, absl::Duration origin, Dispatcher* dispatcher) {
  RampResult result;
  enum class Verdict { kMet, kBroken, kStopped };
  const auto run_step = [&](double rate) {
    RampStep step;
    step.offered = rate;
    step.begin = dispatcher->clock()->Now() - origin;
    // Each step has arrivals of its own: the same gaps scaled would repeat one draw's luck at every rate.
    const uint64_t seed = plan.seed + result.steps.size();
    step.stats = RunOpenLoop({plan.process, rate, plan.max_in_flight, seed}, plan.step, dispatcher);
    if (dispatcher->stopped()) return Verdict::kStopped;  // cut short, it proves nothing
    step.broken = BrokenBy(step.stats, rate, plan.slo);
    step.met_slo = step.broken.empty();
    if (step.met_slo) result.knee = static_cast<int>(result.steps.size());
    result.steps.push_back(std::move(step));
    return result.steps.back().met_slo ? Verdict::kMet : Verdict::kBroken;
  };

  double good = 0;
  double bad = 0;
  Verdict verdict = Verdict::kMet;
  for (double rate = plan.first_rate; rate <= plan.max_rate && verdict == Verdict::kMet; rate *= plan.growth) {
    verdict = run_step(rate);
    if (verdict == Verdict::kMet) good = rate;
    if (verdict == Verdict::kBroken) bad = rate;
  }
  result.bracketed = bad > 0;
  for (int i = 0; i < plan.refinements && good > 0 && bad > 0; ++i) {
    const double rate = (good + bad) / 2;
    verdict = run_step(rate);
    if (verdict == Verdict::kStopped) break;
    (verdict == Verdict::kMet ? good : bad) = rate;
  }
  return result;
}

}  // namespace tessera::load
