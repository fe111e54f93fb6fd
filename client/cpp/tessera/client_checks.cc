#include "client/cpp/tessera/client_checks.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "proto/wire/attend_encode.h"

namespace tessera {
namespace {

absl::Status CheckRange(absl::string_view name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ", outside ", least, " to ", most));
}

// Resolvers read a port above 65535 as another one, 65537 as 1, and -1 as 65535; of a name with a space in it they say
// only that there is none.
absl::Status CheckTarget(absl::string_view target) {
  if (absl::StartsWith(target, "unix")) return absl::OkStatus();
  if (std::any_of(target.begin(), target.end(), absl::ascii_isspace)) {
    return absl::InvalidArgumentError(absl::StrCat("target is \"", target, "\", which has a space within"));
  }
  const size_t colon = target.rfind(':');
  if (colon == absl::string_view::npos) return absl::OkStatus();
  absl::string_view digits = target.substr(colon + 1);
  const bool has_sign = absl::ConsumePrefix(&digits, "-") || absl::ConsumePrefix(&digits, "+");
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit)) return absl::OkStatus();
  int port = 0;
  if (!has_sign && absl::SimpleAtoi(digits, &port) && port <= 65535) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("target is ", target, ", whose port is not from 0 to 65535"));
}

}  // namespace

absl::StatusOr<std::vector<Endpoint>> ParseTarget(const std::string& target, const ClientOptions& options) {
  std::vector<Endpoint> endpoints;
  for (absl::string_view one : absl::StrSplit(target, ',')) {
    one = absl::StripAsciiWhitespace(one);
    if (absl::Status status = CheckTarget(one); !status.ok()) return status;
    endpoints.push_back({std::string(one), ""});
  }
  if (std::any_of(endpoints.begin(), endpoints.end(),
                  [](const Endpoint& endpoint) { return endpoint.target.empty(); })) {
    return absl::InvalidArgumentError(
        endpoints.size() == 1 ? "target is empty"
                              : absl::StrCat("target is ", target, ", a list with nothing between two commas"));
  }
  if (options.every_address && endpoints.size() > 1) {
    return absl::InvalidArgumentError("every_address goes with a single name");
  }
  return endpoints;
}

absl::Status CheckOptions(const ClientOptions& options) {
  constexpr int64_t kMessageLimit = static_cast<int64_t>(wire::kMaxMessageBytes) - (2 << 20);  // room for the header
  absl::Status status = CheckRange("connections", options.connections, 1, 1024);
  status.Update(CheckRange("chunk_bytes", options.chunk_bytes, 1, kMessageLimit));
  status.Update(CheckRange("stripe_threshold_bytes", options.stripe_threshold_bytes, 1, INT64_MAX));
  status.Update(CheckRange("unary_limit_bytes", options.unary_limit_bytes, 0, kMessageLimit));
  status.Update(CheckRange("retry.max_attempts", options.retry.max_attempts, 1, 1000));
  const auto backoff = [](absl::Duration value) { return value >= absl::Microseconds(1) && value <= absl::Hours(1); };
  if (!backoff(options.retry.initial_backoff) || !backoff(options.retry.max_backoff)) {
    status.Update(absl::InvalidArgumentError("retry: the backoffs must be 1 us to 1 h"));
  }
  if (!(options.retry.backoff_multiplier >= 1 && options.retry.backoff_multiplier <= 100)) {
    status.Update(absl::InvalidArgumentError("retry.backoff_multiplier must be 1 to 100"));
  }
  for (const absl::Duration keepalive : {options.keepalive_time, options.keepalive_timeout}) {
    if (keepalive < absl::Milliseconds(1)) {
      status.Update(absl::InvalidArgumentError("keepalive_time and keepalive_timeout must be at least 1 ms"));
    }
  }
  if (options.stall_timeout <= absl::ZeroDuration()) {
    status.Update(absl::InvalidArgumentError("stall_timeout must be positive"));
  }
  // gRPC stops the process over others.
  if (!std::all_of(options.tenant.begin(), options.tenant.end(), absl::ascii_isprint)) {
    status.Update(absl::InvalidArgumentError("tenant must be printable ASCII"));
  }
  if (options.default_timeout <= absl::ZeroDuration()) {
    status.Update(absl::InvalidArgumentError("default_timeout must be positive"));
  }
  return status;
}

}  // namespace tessera
