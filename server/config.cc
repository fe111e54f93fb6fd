#include "server/config.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

absl::Status CheckRange(const char* name, int64_t value, int64_t lowest, int64_t highest) {
  if (value >= lowest && value <= highest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", value, " is not in ", lowest, " to ", highest));
}

absl::Status CheckDuration(const char* name, absl::Duration value, absl::Duration lowest, absl::Duration highest) {
  if (value >= lowest && value <= highest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", absl::FormatDuration(value), " is not in ",
                                                 absl::FormatDuration(lowest), " to ", absl::FormatDuration(highest)));
}

absl::Status CheckNotNegative(const char* name, absl::Duration value) {
  if (value >= absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", absl::FormatDuration(value), " is negative"));
}

absl::Status CheckShare(const char* name, double value) {
  if (value > 0 && value <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", value, " is not above 0 and at most 1"));
}

int64_t Share(double share, int64_t whole) {
  return share >= 1 ? whole : static_cast<int64_t>(share * static_cast<double>(whole));
}

}  // namespace

SchedulerOptions SchedulerOptionsFor(const ServerConfig& config, absl::string_view backend) {
  SchedulerOptions options = config.scheduler;
  if (options.max_batch_cost == 0) options.max_batch_cost = int64_t{1} << (backend == "cuda" ? 40 : 33);
  return options;
}

absl::Status ValidateConfig(const ServerConfig& config) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMostInt = std::numeric_limits<int>::max();
  // gRPC takes an int of milliseconds: 24 days and a bit.
  constexpr absl::Duration kLongestForGrpc = absl::Hours(24 * 24);
  if (config.backend != "auto" && config.backend != "cpu" && config.backend != "cuda") {
    return absl::InvalidArgumentError(absl::StrCat("backend: ", config.backend, " is not one of auto, cpu, cuda"));
  }
  for (const absl::Status& status : {
           CheckRange("threads", config.threads, 0, 4096),
           CheckRange("slots", config.slots, 1, 64),
           CheckRange("staging_bytes", config.staging_bytes, 1 << 20, kMost),
           CheckRange("max_inflight_bytes", config.max_inflight_bytes, 1 << 20, kMost),
           // protobuf's own parsers take no more than an int.
           CheckRange("max_message_bytes", config.max_message_bytes, 1 << 10, kMostInt - 16),
           CheckRange("transport_bytes", config.transport_bytes, 1 << 20, kMost),
           CheckRange("max_connections", config.max_connections, 1, kMostInt),
           CheckRange("max_concurrent_streams", config.max_concurrent_streams, 1, kMostInt),
           CheckRange("max_request_bytes", config.attend.request.max_request_bytes, 1, kMost),
           CheckRange("max_sequences", config.attend.request.max_sequences, 1, kMostInt),
           CheckRange("max_sequence_tokens", config.attend.request.max_sequence_tokens, 1, int64_t{1} << 32),
           CheckRange("max_heads", config.attend.request.max_heads, 1, kMostInt),
           CheckRange("max_stream_calls", config.attend.max_stream_calls, 1, kMostInt),
           CheckRange("max_striped_calls", config.attend.max_striped_calls, 1, kMostInt),
           CheckRange("chunk_bytes", config.attend.chunk_bytes, 1, kMostInt / 2),
           CheckRange("max_outbox_bytes", config.attend.max_outbox_bytes, 1, kMost),
           Validate(SchedulerOptionsFor(config, config.backend)),
           CheckShare("max_tenant_memory_share", config.attend.max_tenant_memory_share),
           CheckNotNegative("assembly_timeout", config.attend.assembly_timeout),
           CheckNotNegative("send_timeout", config.attend.send_timeout),
           CheckNotNegative("stripe_timeout", config.attend.stripe_timeout),
           CheckNotNegative("hang_timeout", config.engine.hang_timeout),
           CheckDuration("watchdog_period", config.engine.watchdog_period, absl::Microseconds(100), absl::Seconds(10)),
           CheckDuration("min_ping_interval", config.min_ping_interval, absl::ZeroDuration(), kLongestForGrpc),
           CheckDuration("keepalive", config.keepalive, absl::Seconds(1), kLongestForGrpc),
           CheckNotNegative("drain_grace", config.drain_grace),
           CheckNotNegative("drain_timeout", config.drain_timeout),
       }) {
    if (!status.ok()) return status;
  }
  // Also false for what is not a number.
  if (!(config.engine.slowest_pace >= 1 && config.engine.slowest_pace <= std::numeric_limits<double>::max())) {
    return absl::InvalidArgumentError(
        absl::StrCat("slowest_pace: ", config.engine.slowest_pace, " is not a finite number of at least 1"));
  }
  return absl::OkStatus();
}

ByteBudget::Limits BudgetLimits(const ServerConfig& config, int64_t staging_bytes) {
  const double share = config.attend.max_tenant_memory_share;
  return {.bytes = config.max_inflight_bytes,
          .tenant_bytes = Share(share, config.max_inflight_bytes),
          .tenant_staged = Share(share, staging_bytes)};
}

AttendLimits FittedLimits(const ServerConfig& config, int64_t staging_bytes) {
  const ByteBudget::Limits budget = BudgetLimits(config, staging_bytes);
  AttendLimits limits = config.attend;
  limits.request.max_request_bytes =
      std::min({limits.request.max_request_bytes, budget.tenant_bytes, budget.tenant_staged,
                Share(config.scheduler.max_tenant_share, config.scheduler.max_queue_bytes)});
  return limits;
}

}  // namespace tessera
