#include "client/cpp/load/load_config.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tessera::load {
namespace {

absl::Status Refuse(const char* flag, const char* wanted) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, ": must be ", wanted));
}

bool Finite(double value) { return std::isfinite(value); }

// A schedule is kept in memory.
constexpr double kMaxArrivals = 100e6;

}  // namespace

absl::Duration OfferedTime(const LoadConfig& config) {
  const RunLength& length = config.length;
  if (length.measured != absl::InfiniteDuration()) return length.warm_up + length.measured;
  // Enough for that many Poisson arrivals but for one run in many millions.
  const auto n = static_cast<double>(length.max_requests);
  return length.warm_up + absl::Seconds((n + 6 * std::sqrt(n) + 16) / config.rate);
}

absl::Status CompleteConfig(LoadConfig* config) {
  const bool ramp = config->mode == LoadMode::kRamp;
  const bool open = config->mode == LoadMode::kPoisson || config->mode == LoadMode::kConstant;
  RunLength& length = config->length;
  if (config->server.address.empty() && !config->echo) return Refuse("target", "an address, unless --echo is given");
  if (config->shapes.empty()) return Refuse("shape", "given at least once");
  if (config->regions != RegionKind::kNone && (config->mode != LoadMode::kClosed || config->server.address.empty())) {
    return Refuse("regions", "none, unless --mode=closed with a server");
  }
  if (config->decode.has_value()) {
    if (ramp) return Refuse("mode", "closed, poisson or constant with --decode");
    if (config->server.address.empty()) return Refuse("target", "an address with --decode");
    if (config->regions != RegionKind::kNone) return Refuse("regions", "none with --decode");
    if (!config->html_path.empty()) return Refuse("html", "empty with --decode");
  }
  if (config->callers < 1 || config->callers > 65536) return Refuse("callers", "1 to 65536");
  if (!(config->rate > 0) || !Finite(config->rate)) return Refuse("rate", "over 0");
  if (config->server.connections < 1 || config->server.connections > 256) return Refuse("connections", "1 to 256");
  if (config->server.timeout <= absl::ZeroDuration()) return Refuse("timeout", "over 0");
  if (config->server.timeout == absl::InfiniteDuration())
    return Refuse("timeout", "finite: a lost answer would hang it");
  if (config->server.attempts < 1) return Refuse("attempts", "at least 1");
  if (config->max_in_flight < 1) return Refuse("max_in_flight", "at least 1");
  if (config->payloads < 1 || config->payloads > 65536) return Refuse("payloads", "1 to 65536");
  if (config->verify < 0 || config->verify > 10000) return Refuse("verify", "0 to 10000");
  if (config->rounds < 1 || config->rounds > 1000) return Refuse("rounds", "1 to 1000");
  if (ramp && config->rounds > 1) return Refuse("rounds", "1 for a ramp");
  if (length.max_requests < 0) return Refuse("requests", "at least 0");
  if (length.warm_up < absl::ZeroDuration() || length.warm_up == absl::InfiniteDuration()) {
    return Refuse("warm_up", "finite and at least 0");
  }
  if (length.measured <= absl::ZeroDuration()) return Refuse("duration", "over 0");

  if (length.measured == absl::InfiniteDuration()) {
    if (length.max_requests == 0 || ramp) return Refuse("duration", "finite, unless --requests bounds the run");
    // A decode load's window stays open until the last group has ended.
    if (open && !config->decode.has_value()) length.measured = OfferedTime(*config) - length.warm_up;
  }
  if (open && config->rate * absl::ToDoubleSeconds(OfferedTime(*config)) > kMaxArrivals) {
    return Refuse("rate", "at most 100 million requests over the whole run");
  }
  if (ramp) {
    RampPlan& plan = config->ramp;
    if (!(plan.first_rate > 0) || !Finite(plan.first_rate)) return Refuse("ramp_start", "over 0");
    if (!(plan.growth > 1) || !Finite(plan.growth)) return Refuse("ramp_growth", "over 1");
    if (!(plan.max_rate >= plan.first_rate) || plan.max_rate > 1e6) {
      return Refuse("ramp_max", "at least --ramp_start and at most 1000000");
    }
    if (plan.refinements < 0 || plan.refinements > 20) return Refuse("ramp_refinements", "0 to 20");
    if (plan.slo.p99 <= absl::ZeroDuration()) return Refuse("slo_p99", "over 0");
    if (!(plan.slo.error_fraction >= 0 && plan.slo.error_fraction < 1)) return Refuse("slo_errors", "from 0 to 1");
    plan.step = length;
    plan.max_in_flight = config->max_in_flight;
    plan.seed = config->seed;
  }
  return absl::OkStatus();
}

LoadConfig RoundOf(const LoadConfig& config, int round) {
  LoadConfig part = config;
  part.length.measured = config.length.measured / config.rounds;
  part.length.max_requests = (config.length.max_requests + config.rounds - 1) / config.rounds;
  part.seed = config.seed + static_cast<uint64_t>(round);
  return part;
}

std::string DescribeLoad(const LoadConfig& config) {
  std::string text;
  switch (config.mode) {
    case LoadMode::kClosed:
      text = absl::StrFormat("closed loop, %d callers", config.callers);
      break;
    case LoadMode::kPoisson:
      text = absl::StrFormat("open loop, Poisson arrivals at %g/s", config.rate);
      break;
    case LoadMode::kConstant:
      text = absl::StrFormat("open loop, constant arrivals at %g/s", config.rate);
      break;
    case LoadMode::kRamp:
      text = absl::StrFormat("ramp from %g/s until p99 > %s or errors > %g%%", config.ramp.first_rate,
                             absl::FormatDuration(config.ramp.slo.p99), 100 * config.ramp.slo.error_fraction);
      break;
  }
  const RunLength& length = config.length;
  if (length.max_requests > 0) {
    absl::StrAppend(&text, ", ", length.max_requests, config.decode.has_value() ? " groups" : " requests");
  }
  if (length.max_requests == 0) absl::StrAppend(&text, ", ", absl::FormatDuration(length.measured));
  absl::StrAppend(&text, config.mode == LoadMode::kRamp ? " a step" : "", " measured after ",
                  absl::FormatDuration(length.warm_up), " of warm-up");
  if (config.rounds > 1) absl::StrAppend(&text, ", in ", config.rounds, " rounds");
  return text;
}

}  // namespace tessera::load
