#include "server/config/config.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/config/device_list.h"
#include "server/region/shared_memory.h"

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

absl::Status CheckPositive(const char* name, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", absl::FormatDuration(value), " is not positive"));
}

absl::Status CheckNotNegative(const char* name, absl::Duration value) {
  if (value >= absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", absl::FormatDuration(value), " is negative"));
}

absl::Status CheckShare(const char* name, double value) {
  if (value > 0 && value <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", value, " is not above 0 and at most 1"));
}

// "host:port", an IPv6 host in brackets. What listens would read other ports in ways of its own: 65536 as 0.
absl::Status CheckAddress(const char* name, absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon != absl::string_view::npos) {
    const absl::string_view host = address.substr(0, colon);
    const absl::string_view digits = address.substr(colon + 1);
    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    const bool plain = !host.empty() && host.find_first_of(":[],") == absl::string_view::npos;
    int port = 0;
    if ((bracketed || plain) && !digits.empty() && std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) &&
        absl::SimpleAtoi(digits, &port) && port <= 65535) {
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", address, " is not host:port with a port from 0 to 65535"));
}

// An address that callers can go to, in the one way to write it that gives all servers of a set the same id. It travels
// in metadata, and gRPC ends a process that puts anything but printable ASCII there.
absl::Status CheckReachable(const char* name, absl::string_view address) {
  constexpr size_t kLongest = 300;  // a DNS name has at most 253 characters
  const auto legal = [](char c) { return absl::ascii_isalnum(c) || absl::StrContains(".-_%:[]", c); };
  if (address.size() > kLongest || !std::all_of(address.begin(), address.end(), legal)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", absl::CHexEscape(address.substr(0, kLongest)),
                                                   " is no address of letters, digits and .-_%:[], at most ",
                                                   kLongest));
  }
  const size_t colon = address.rfind(':');
  if (colon != absl::string_view::npos && absl::StartsWith(address.substr(colon + 1), "0")) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", address, " has no port, or one with a zero before it"));
  }
  return CheckAddress(name, address);
}

absl::Status CheckNames(const ServerConfig& config) {
  if (!config.advertise.empty()) {
    if (absl::Status status = CheckReachable("advertise", config.advertise); !status.ok()) return status;
  } else if (!config.peers.empty()) {
    return absl::InvalidArgumentError(
        "peers: needs advertise, without which handles do not say that they are this server's");
  }
  for (const std::string& peer : config.peers) {
    if (absl::Status status = CheckReachable("peers", peer); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Also a Unix socket, whose name is checked when it is opened.
absl::Status CheckListen(absl::string_view address) {
  if (absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:")) return absl::OkStatus();
  return CheckAddress("listen", address);
}

// What the files hold is judged when they are read.
absl::Status CheckSecurity(const ServerConfig& config) {
  if (config.tls_certificate.empty() != config.tls_private_key.empty()) {
    return absl::InvalidArgumentError("tls_certificate, tls_private_key: one needs the other");
  }
  const bool tls = !config.tls_certificate.empty();
  if (!tls && !config.tls_client_ca.empty()) {
    return absl::InvalidArgumentError("tls_client_ca: needs tls_certificate and tls_private_key");
  }
  if (!tls && !config.token_file.empty()) {
    return absl::InvalidArgumentError(
        "token_file: needs tls_certificate and tls_private_key, for tokens in plain text are anybody's");
  }
  return absl::OkStatus();
}

// REQUIRES: max_message_bytes has been checked.
absl::Status CheckTransportBytes(const ServerConfig& config) {
  const int64_t least = kTransportBytesPerMessageByte * config.max_message_bytes;
  if (config.transport_bytes >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("transport_bytes: ", config.transport_bytes, " is less than ", least,
                                                 ", which is ", kTransportBytesPerMessageByte,
                                                 " times max_message_bytes: a single message could fill it"));
}

absl::Status CheckProfiles(const std::vector<CacheProfile>& profiles) {
  for (size_t i = 0; i < profiles.size(); ++i) {
    if (absl::Status status = Validate(profiles[i]); !status.ok()) return status;
    for (size_t j = 0; j < i; ++j) {
      if (profiles[i].name == profiles[j].name) {
        return absl::InvalidArgumentError(absl::StrCat("kv_profiles: two have the name \"", profiles[i].name, "\""));
      }
    }
  }
  return absl::OkStatus();
}

int64_t Share(double share, int64_t whole) {
  return share >= 1 ? whole : static_cast<int64_t>(share * static_cast<double>(whole));
}

}  // namespace

SchedulerOptions SchedulerOptionsFor(const ServerConfig& config, absl::string_view backend) {
  SchedulerOptions options = config.scheduler;
  if (options.max_batch_cost == 0) options.max_batch_cost = int64_t{1} << (backend == "cuda" ? 40 : 33);
  if (backend == "cpu") options.lookout = absl::ZeroDuration();
  return options;
}

int SlotsFor(const ServerConfig& config, absl::string_view backend) {
  if (config.slots != 0) return config.slots;
  return backend == "cuda" ? 4 : 1;
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
           CheckListen(config.listen),
           config.metrics_address.empty() ? absl::OkStatus() : CheckAddress("metrics_address", config.metrics_address),
           config.health_address.empty() ? absl::OkStatus() : CheckAddress("health_address", config.health_address),
           CheckNames(config),
           CheckSecurity(config),
           CheckRange("threads", config.threads, 0, 4096),
           CheckRange("slots", config.slots, 0, 64),
           ParseDeviceList(config.device).status(),
           CheckProfiles(config.kv_profiles),
           CheckRange("staging_bytes", config.staging_bytes, 1 << 20, kMost),
           CheckRange("max_inflight_bytes", config.max_inflight_bytes, 1 << 20, kMost),
           // protobuf's own parsers take no more than an int.
           CheckRange("max_message_bytes", config.max_message_bytes, 1 << 10, kMostInt - 16),
           CheckRange("max_connections", config.max_connections, 1, kMostInt),
           CheckRange("max_concurrent_streams", config.max_concurrent_streams, 1, kMostInt),
           CheckRange("max_request_bytes", config.attend.request.max_request_bytes, 1, kMost),
           CheckRange("max_request_cost", config.attend.request.max_request_cost, 0, AttendShape::kMostCost),
           CheckRange("max_sequences", config.attend.request.max_sequences, 1, kMostInt),
           CheckRange("max_sequence_tokens", config.attend.request.max_sequence_tokens, 1, int64_t{1} << 32),
           CheckRange("max_heads", config.attend.request.max_heads, 1, kMostInt),
           CheckRange("max_stream_calls", config.attend.max_stream_calls, 1, kMostInt),
           CheckRange("max_striped_calls", config.attend.max_striped_calls, 1, kMostInt),
           CheckRange("chunk_bytes", config.attend.chunk_bytes, 1, kMostInt / 2),
           CheckRange("max_outbox_bytes", config.attend.max_outbox_bytes, 1, kMost),
           // Names that the scheduler does not know its options by. GetServerInfo has 32 bits for the first.
           CheckRange("max_queue_requests", config.scheduler.max_queue_jobs, 1, kMostInt),
           CheckRange("max_batch_requests", config.scheduler.max_batch_jobs, 1, kMost),
           // As a GPU has them: what a CPU makes no use of is checked all the same.
           Validate(SchedulerOptionsFor(config, "cuda")),
           CheckShare("max_tenant_memory_share", config.attend.max_tenant_memory_share),
           // A region has whole pages.
           CheckRange("max_region_bytes", config.regions.max_bytes, static_cast<int64_t>(SharedMemory::PageBytes()),
                      static_cast<int64_t>(SharedMemory::kMostBytes)),
           CheckRange("max_regions", config.regions.max_regions, 1, 1 << 16),
           CheckPositive("assembly_timeout", config.attend.assembly_timeout),
           CheckPositive("max_assembly_time", config.attend.max_assembly_time),
           CheckPositive("send_timeout", config.attend.send_timeout),
           CheckPositive("stripe_timeout", config.attend.stripe_timeout),
           CheckNotNegative("hang_timeout", config.engine.hang_timeout),
           CheckDuration("watchdog_period", config.engine.watchdog_period, absl::Microseconds(100), absl::Seconds(10)),
           CheckDuration("min_ping_interval", config.min_ping_interval, absl::ZeroDuration(), kLongestForGrpc),
           CheckDuration("keepalive", config.keepalive, absl::Seconds(1), kLongestForGrpc),
           CheckDuration("handshake_timeout", config.handshake_timeout, absl::Milliseconds(100), kLongestForGrpc),
           // Who stops a server wants it to end.
           CheckDuration("drain_grace", config.drain_grace, absl::ZeroDuration(), absl::Hours(24)),
           CheckNotNegative("drain_timeout", config.drain_timeout),
       }) {
    if (!status.ok()) return status;
  }
  if (absl::Status status = CheckTransportBytes(config); !status.ok()) return status;
  // Also false for what is not a number.
  if (!(config.memory_fraction > 0 && config.memory_fraction < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory_fraction: ", config.memory_fraction, " is not between 0 and 1"));
  }
  if (!(config.engine.slowest_pace >= 1 && config.engine.slowest_pace <= std::numeric_limits<double>::max())) {
    return absl::InvalidArgumentError(
        absl::StrCat("slowest_pace: ", config.engine.slowest_pace, " is not a finite number of at least 1"));
  }
  return absl::OkStatus();
}

ByteBudget::Limits BudgetLimits(const ServerConfig& config, int64_t staging_bytes) {
  const double share = config.attend.max_tenant_memory_share;
  return {.bytes = config.max_inflight_bytes,
          .staged = staging_bytes,
          .tenant_bytes = Share(share, config.max_inflight_bytes),
          .tenant_staged = Share(share, staging_bytes)};
}

AttendLimits FittedLimits(const ServerConfig& config, int64_t staging_bytes, absl::string_view backend,
                          int64_t device_bytes) {
  const ByteBudget::Limits budget = BudgetLimits(config, staging_bytes);
  AttendLimits limits = config.attend;
  limits.request.max_request_bytes =
      std::min({limits.request.max_request_bytes, budget.tenant_bytes, budget.tenant_staged,
                Share(config.scheduler.max_tenant_share, config.scheduler.max_queue_bytes)});
  if (limits.request.max_request_cost == 0)
    limits.request.max_request_cost = int64_t{1} << (backend == "cuda" ? 52 : 41);
  if (device_bytes > 0) {
    limits.request.max_request_bytes = std::min(limits.request.max_request_bytes, device_bytes);
  }
  return limits;
}

}  // namespace tessera
