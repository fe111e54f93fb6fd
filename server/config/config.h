// Everything that can be chosen about a server.
#ifndef TESSERA_SERVER_CONFIG_CONFIG_H_
#define TESSERA_SERVER_CONFIG_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/engine/engine.h"
#include "server/memory/byte_budget.h"
#include "server/region/region_host.h"
#include "server/request/cache_profile.h"
#include "server/rpc/attend_environment.h"
#include "server/scheduler/scheduler.h"

namespace tessera {

struct ServerConfig {
  // "host:port", where port 0 takes a free one, "unix:path" or "unix-abstract:name".
  std::string listen = "0.0.0.0:7171";
  // "host:port" of /metrics over HTTP; port 0 takes a free one, empty serves none.
  std::string metrics_address = "0.0.0.0:9171";
  // "host:port" of grpc.health.v1 alone, in plain text; port 0 takes a free one, empty serves none.
  std::string health_address;
  // "host:port" by which callers reach this very server, and those of the servers of its set, this one possibly among
  // them: a handle says which one keeps its sequence, and the others answer with its address. Empty: not told.
  std::string advertise;
  std::vector<std::string> peers;
  std::string revision = "unknown";

  // Files in PEM; empty: the gRPC port speaks plain text. The chain begins with the server's certificate; callers must
  // show a certificate where tls_client_ca names who signs them.
  std::string tls_certificate;
  std::string tls_private_key;
  std::string tls_client_ca;
  // Who may call, by bearer token, as TokenTable::Parse reads it; empty: tokens are not asked for.
  std::string token_file;

  std::string backend = "auto";  // "auto", "cpu" or "cuda"
  std::string device = "all";    // GPUs: "all", or their numbers, "0,1"
  double memory_fraction = 0.9;  // of a GPU's free memory at start: its arena
  int threads = 0;               // of the CPU kernel; 0: one for each core
  int slots = 0;                 // batches that a device runs at a time; 0: the backend's, see SlotsFor
  int64_t staging_bytes = int64_t{2} << 30;
  std::string fault_script;  // tests only; empty: no faults

  // What resident sequences may be like; empty: the server keeps none.
  std::vector<CacheProfile> kv_profiles;

  // Bytes of all received messages and admitted calls together.
  int64_t max_inflight_bytes = int64_t{4} << 30;
  AttendLimits attend = {.request = {.max_request_cost = 0}};  // 0: the backend's, see FittedLimits
  // A max_batch_cost of 0 is the backend's, see SchedulerOptionsFor.
  SchedulerOptions scheduler = {.max_batch_cost = 0, .lookout = absl::Microseconds(500)};
  EngineOptions engine;
  RegionLimits regions;

  // gRPC.
  int64_t max_message_bytes = int64_t{16} << 20;
  // gRPC's own buffers: reading slows down as they fill, and once they are full streams are reset, whosever they are.
  int64_t transport_bytes = int64_t{2} << 30;
  int max_connections = 1024;                           // one more is closed at once
  int max_concurrent_streams = 1024;                    // RPCs on one connection
  absl::Duration min_ping_interval = absl::Seconds(5);  // clients that ping more often are cut off
  absl::Duration keepalive = absl::Minutes(1);          // silence after which a connection is probed
  // What a connection has for its handshakes, TLS's and HTTP/2's; until then anybody can hold it.
  absl::Duration handshake_timeout = absl::Seconds(10);

  // On SIGTERM: still admitting for drain_grace, a day at most, then finishing what was admitted for at most
  // drain_timeout.
  absl::Duration drain_grace = absl::Seconds(5);
  absl::Duration drain_timeout = absl::Seconds(30);
};

// The scheduler's options on a device of `backend` ("cpu", "cuda"). A max_batch_cost of 0 becomes 2^40 on a GPU, about
// 2 ms, and 2^33 on a CPU, about 0.1 s. On a CPU there is no lookout: its cores are the callers' and the batches' own.
SchedulerOptions SchedulerOptionsFor(const ServerConfig& config, absl::string_view backend);

// Batches that a device of `backend` runs at a time. A config.slots of 0 becomes 4 on a GPU, so that copies in both
// directions overlap kernels, and 1 on a CPU, which keeps all cores on one batch.
int SlotsFor(const ServerConfig& config, absl::string_view backend);

// What transport_bytes must be of max_message_bytes, so that no single message can fill it: gRPC takes messages of up
// to twice max_message_bytes (see Server), and of one that comes in frames of a byte each, every byte costs it 42.
inline constexpr int64_t kTransportBytesPerMessageByte = int64_t{2} * 42;

// INVALID_ARGUMENT naming the setting that makes no sense, by its flag.
absl::Status ValidateConfig(const ServerConfig& config);

// What one tenant may hold of the byte budget and of `staging_bytes`.
ByteBudget::Limits BudgetLimits(const ServerConfig& config, int64_t staging_bytes);

// The limits of calls, max_request_bytes lowered to what memory and queue can ever hold for one: so GetServerInfo tells
// callers the truth, and a call beyond it is refused as invalid, not asked to come again. A max_request_cost of 0
// becomes 2^52 on a GPU, about 10 s, and 2^41 on a CPU, about 20 s. REQUIRES: valid.
//
// `device_bytes`: what a call may take of any device's memory; 0 where tensors stay in staging memory.
AttendLimits FittedLimits(const ServerConfig& config, int64_t staging_bytes, absl::string_view backend,
                          int64_t device_bytes);

}  // namespace tessera

#endif  // TESSERA_SERVER_CONFIG_CONFIG_H_
