#include "server/config/flags.h"

#include <algorithm>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/config/byte_size.h"
#include "server/config/flag_files.h"
#include "server/config/kv_profiles.h"
#include "server/config/peers.h"
#include "server/process/version.h"

namespace {

using tessera::ByteSize;

// The defaults are those of the structs.
const tessera::ServerConfig kDefaults;

}  // namespace

ABSL_FLAG(std::string, listen, kDefaults.listen,
          "Address of the gRPC port: host:port, where port 0 takes a free one, unix:path or unix-abstract:name");
ABSL_FLAG(std::string, metrics_address, kDefaults.metrics_address,
          "Address of /metrics over HTTP, host:port; port 0 takes a free one, empty serves none");
ABSL_FLAG(
    std::string, health_address, kDefaults.health_address,
    "Address of a port that serves grpc.health.v1 alone, in plain text, for probes, host:port; port 0 takes a free "
    "one, empty serves none");
ABSL_FLAG(std::string, advertise, kDefaults.advertise,
          "host:port by which callers reach this very server, and no other: handles of sequences name it; empty: they "
          "do not");
ABSL_FLAG(
    std::string, peers, "",
    "Addresses under which the servers of one set are advertised, host:port,host:port or kv-{0..9}:port: of their "
    "sequences a caller hears where they are");
ABSL_FLAG(std::string, tls_certificate, kDefaults.tls_certificate,
          "File of the server's certificate and the rest of its chain, PEM; empty: plain text. All four files are read "
          "anew when they change");
ABSL_FLAG(std::string, tls_private_key, kDefaults.tls_private_key, "File of the certificate's private key, PEM");
ABSL_FLAG(std::string, tls_client_ca, kDefaults.tls_client_ca,
          "File of the certificates that sign those of clients, PEM; empty: clients need none");
ABSL_FLAG(std::string, token_file, kDefaults.token_file,
          "File of who may call, lines of a tenant and the SHA-256 of its token in hexadecimal digits; empty: callers "
          "need no token");
ABSL_FLAG(std::string, log_level, "info", "debug, info, warning or error; debug logs every RPC");

ABSL_FLAG(std::string, backend, kDefaults.backend, "auto, cpu or cuda");
ABSL_FLAG(std::string, device, kDefaults.device, "GPUs to use: all, or their numbers, 0,1");
ABSL_FLAG(double, memory_fraction, kDefaults.memory_fraction,
          "Part of a GPU's free memory that is taken at start, once and for all; above 0 and below 1");
ABSL_FLAG(int, threads, kDefaults.threads, "Threads of the CPU kernel; 0: one for each core");
ABSL_FLAG(int, slots, kDefaults.slots, "Batches a device runs at a time, 0: 1 on the CPU, 4 on a GPU");
ABSL_FLAG(ByteSize, staging_bytes, ByteSize{kDefaults.staging_bytes},
          "Host memory that tensors are received into and answered from, pinned where there is a GPU; never grows");
ABSL_FLAG(std::string, fault_script, kDefaults.fault_script,
          "For tests: faults that the device shall show, as server/device/fault_script.h describes them");

ABSL_FLAG(ByteSize, max_inflight_bytes, ByteSize{kDefaults.max_inflight_bytes},
          "Received messages and admitted calls together; beyond it RESOURCE_EXHAUSTED");
ABSL_FLAG(ByteSize, max_request_bytes, ByteSize{kDefaults.attend.request.max_request_bytes},
          "Largest call, q + k + v + o + LSE");
ABSL_FLAG(int64_t, max_request_cost, kDefaults.attend.request.max_request_cost,
          "Most estimated work in a call, 0: what suits the backend");
ABSL_FLAG(int64_t, max_sequences, kDefaults.attend.request.max_sequences, "Most sequences in a call");
ABSL_FLAG(int64_t, max_sequence_tokens, kDefaults.attend.request.max_sequence_tokens, "Longest sequence");
ABSL_FLAG(int, max_heads, kDefaults.attend.request.max_heads, "Most query heads");
ABSL_FLAG(int64_t, max_stream_calls, kDefaults.attend.max_stream_calls, "Most calls open at once on one stream");
ABSL_FLAG(ByteSize, chunk_bytes, ByteSize{kDefaults.attend.chunk_bytes}, "Payload of one message of a streamed answer");
ABSL_FLAG(ByteSize, max_outbox_bytes, ByteSize{kDefaults.attend.max_outbox_bytes},
          "Unread answers beyond which a stream is not read from");
ABSL_FLAG(int64_t, max_striped_calls, kDefaults.attend.max_striped_calls,
          "Most striped calls that wait for their streams");
ABSL_FLAG(absl::Duration, stripe_timeout, kDefaults.attend.stripe_timeout,
          "How long a striped call waits for its last stream");

ABSL_FLAG(absl::Duration, assembly_timeout, kDefaults.attend.assembly_timeout,
          "How long a call of a stream waits for its next chunk");
ABSL_FLAG(absl::Duration, max_assembly_time, kDefaults.attend.max_assembly_time,
          "How long all chunks of a call may take to come");
ABSL_FLAG(absl::Duration, send_timeout, kDefaults.attend.send_timeout,
          "How long a client may leave a message of an answer unread");
ABSL_FLAG(double, max_tenant_memory_share, kDefaults.attend.max_tenant_memory_share,
          "Part of max_inflight_bytes, staging_bytes, max_region_bytes and max_regions that one tenant may hold even "
          "where no "
          "other wants it, above 0 and at most 1");

ABSL_FLAG(bool, allow_shared_memory, kDefaults.regions.allow_shared_memory,
          "Callers on this host may share memory with the server in place of sending tensors; docs/regions.md");
ABSL_FLAG(bool, allow_cuda_ipc, kDefaults.regions.allow_cuda_ipc,
          "Callers on this host may have the server read and write their own GPU memory; docs/regions.md");
ABSL_FLAG(ByteSize, max_region_bytes, ByteSize{kDefaults.regions.max_bytes},
          "Shared memory of all callers together, which the machine must have");
ABSL_FLAG(int64_t, max_regions, kDefaults.regions.max_regions,
          "Most regions, shared or a GPU's, of all callers together");

ABSL_FLAG(int64_t, max_queue_requests, kDefaults.scheduler.max_queue_jobs, "Most calls that wait");
ABSL_FLAG(ByteSize, max_queue_bytes, ByteSize{kDefaults.scheduler.max_queue_bytes}, "Most bytes of calls that wait");
ABSL_FLAG(double, max_tenant_share, kDefaults.scheduler.max_tenant_share,
          "Part of the queue's bounds that one tenant may fill, above 0 and at most 1");
ABSL_FLAG(int64_t, max_batch_requests, kDefaults.scheduler.max_batch_jobs, "Most calls in a batch; 1: no batching");
ABSL_FLAG(int64_t, max_batch_tokens, kDefaults.scheduler.max_batch_tokens, "Most query tokens in a batch");
ABSL_FLAG(int64_t, max_batch_cost, kDefaults.scheduler.max_batch_cost,
          "Most estimated work in a batch, 0: what suits the backend; a single larger call still runs");
ABSL_FLAG(int64_t, max_batch_sequences, kDefaults.scheduler.max_batch_sequences,
          "Most sequences in a batch; a single call with more still runs");
ABSL_FLAG(int64_t, light_cost, kDefaults.scheduler.light_cost,
          "Estimated work below which waiting calls collect while two such batches run; 0: they never do");
ABSL_FLAG(absl::Duration, batch_delay, kDefaults.scheduler.batch_delay,
          "How long a small batch may be held back while calls come fast");
ABSL_FLAG(
    absl::Duration, slot_lookout, kDefaults.scheduler.lookout,
    "How long a GPU's slot looks for the next call, and what reads a lone caller's messages stays awake for the next; "
    "0: not at all");
ABSL_FLAG(int64_t, fair_quantum, kDefaults.scheduler.fair_quantum,
          "Estimated work that a tenant may have done before the next one's turn");
ABSL_FLAG(int64_t, large_cost, kDefaults.scheduler.large_cost, "Estimated work from which on a call is large");
ABSL_FLAG(int, max_consecutive_large, kDefaults.scheduler.max_consecutive_large,
          "Batches led by large calls before a waiting smaller call goes first");
ABSL_FLAG(
    std::string, kv_profiles, "",
    "Resident sequences: name=...,layers=...,kv_heads=...,head_dim=...,dtype=...,pages=... and more of these after a "
    "semicolon; empty: the server keeps none");
ABSL_FLAG(absl::Duration, hang_timeout, kDefaults.engine.hang_timeout,
          "How long a batch may run before the device counts as lost");

ABSL_FLAG(ByteSize, max_message_bytes, ByteSize{kDefaults.max_message_bytes}, "Largest message received");
ABSL_FLAG(ByteSize, transport_bytes, ByteSize{kDefaults.transport_bytes},
          "gRPC's own buffers; at least 84 times max_message_bytes");
ABSL_FLAG(int, max_connections, kDefaults.max_connections, "Most connections; one more is closed at once");
ABSL_FLAG(int, max_concurrent_streams, kDefaults.max_concurrent_streams, "Most RPCs open on one connection");
ABSL_FLAG(absl::Duration, min_ping_interval, kDefaults.min_ping_interval,
          "Clients that ping more often than this are cut off");
ABSL_FLAG(absl::Duration, keepalive, kDefaults.keepalive, "Silence after which a connection is probed");
ABSL_FLAG(absl::Duration, handshake_timeout, kDefaults.handshake_timeout,
          "How long a new connection may take for its handshakes, TLS's and HTTP/2's");

ABSL_FLAG(absl::Duration, drain_grace, kDefaults.drain_grace,
          "After SIGTERM: how long calls are still admitted while health says NOT_SERVING, at most 24h");
ABSL_FLAG(absl::Duration, drain_timeout, kDefaults.drain_timeout,
          "After the grace: how long admitted calls may take to end");

namespace tessera {
namespace {

ServerConfig ConfigFromFlags() {
  ServerConfig config;
  config.listen = absl::GetFlag(FLAGS_listen);
  config.metrics_address = absl::GetFlag(FLAGS_metrics_address);
  config.health_address = absl::GetFlag(FLAGS_health_address);
  config.advertise = absl::GetFlag(FLAGS_advertise);
  config.tls_certificate = absl::GetFlag(FLAGS_tls_certificate);
  config.tls_private_key = absl::GetFlag(FLAGS_tls_private_key);
  config.tls_client_ca = absl::GetFlag(FLAGS_tls_client_ca);
  config.token_file = absl::GetFlag(FLAGS_token_file);
  config.revision = kRevision;
  config.backend = absl::GetFlag(FLAGS_backend);
  config.device = absl::GetFlag(FLAGS_device);
  config.memory_fraction = absl::GetFlag(FLAGS_memory_fraction);
  config.threads = absl::GetFlag(FLAGS_threads);
  config.slots = absl::GetFlag(FLAGS_slots);
  config.staging_bytes = absl::GetFlag(FLAGS_staging_bytes).bytes;
  config.fault_script = absl::GetFlag(FLAGS_fault_script);
  config.max_inflight_bytes = absl::GetFlag(FLAGS_max_inflight_bytes).bytes;
  config.attend.request.max_request_bytes = absl::GetFlag(FLAGS_max_request_bytes).bytes;
  config.attend.request.max_request_cost = absl::GetFlag(FLAGS_max_request_cost);
  config.attend.request.max_sequences = absl::GetFlag(FLAGS_max_sequences);
  config.attend.request.max_sequence_tokens = absl::GetFlag(FLAGS_max_sequence_tokens);
  config.attend.request.max_heads = absl::GetFlag(FLAGS_max_heads);
  config.attend.max_stream_calls = absl::GetFlag(FLAGS_max_stream_calls);
  config.attend.chunk_bytes = absl::GetFlag(FLAGS_chunk_bytes).bytes;
  config.attend.max_outbox_bytes = absl::GetFlag(FLAGS_max_outbox_bytes).bytes;
  config.attend.max_striped_calls = absl::GetFlag(FLAGS_max_striped_calls);
  config.attend.stripe_timeout = absl::GetFlag(FLAGS_stripe_timeout);
  config.attend.assembly_timeout = absl::GetFlag(FLAGS_assembly_timeout);
  config.attend.max_assembly_time = absl::GetFlag(FLAGS_max_assembly_time);
  config.attend.send_timeout = absl::GetFlag(FLAGS_send_timeout);
  config.attend.max_tenant_memory_share = absl::GetFlag(FLAGS_max_tenant_memory_share);
  config.regions.allow_shared_memory = absl::GetFlag(FLAGS_allow_shared_memory);
  config.regions.allow_cuda_ipc = absl::GetFlag(FLAGS_allow_cuda_ipc);
  config.regions.max_bytes = absl::GetFlag(FLAGS_max_region_bytes).bytes;
  config.regions.max_regions = absl::GetFlag(FLAGS_max_regions);
  config.scheduler.max_queue_jobs = absl::GetFlag(FLAGS_max_queue_requests);
  config.scheduler.max_queue_bytes = absl::GetFlag(FLAGS_max_queue_bytes).bytes;
  config.scheduler.max_tenant_share = absl::GetFlag(FLAGS_max_tenant_share);
  config.scheduler.fair_quantum = absl::GetFlag(FLAGS_fair_quantum);
  config.scheduler.max_batch_jobs = absl::GetFlag(FLAGS_max_batch_requests);
  config.scheduler.max_batch_tokens = absl::GetFlag(FLAGS_max_batch_tokens);
  config.scheduler.max_batch_cost = absl::GetFlag(FLAGS_max_batch_cost);
  config.scheduler.max_batch_sequences = absl::GetFlag(FLAGS_max_batch_sequences);
  config.scheduler.light_cost = absl::GetFlag(FLAGS_light_cost);
  config.scheduler.batch_delay = absl::GetFlag(FLAGS_batch_delay);
  config.scheduler.lookout = absl::GetFlag(FLAGS_slot_lookout);
  config.scheduler.large_cost = absl::GetFlag(FLAGS_large_cost);
  config.scheduler.max_consecutive_large = absl::GetFlag(FLAGS_max_consecutive_large);
  config.engine.hang_timeout = absl::GetFlag(FLAGS_hang_timeout);
  config.max_message_bytes = absl::GetFlag(FLAGS_max_message_bytes).bytes;
  config.transport_bytes = absl::GetFlag(FLAGS_transport_bytes).bytes;
  config.max_connections = absl::GetFlag(FLAGS_max_connections);
  config.max_concurrent_streams = absl::GetFlag(FLAGS_max_concurrent_streams);
  config.min_ping_interval = absl::GetFlag(FLAGS_min_ping_interval);
  config.keepalive = absl::GetFlag(FLAGS_keepalive);
  config.handshake_timeout = absl::GetFlag(FLAGS_handshake_timeout);
  config.drain_grace = absl::GetFlag(FLAGS_drain_grace);
  config.drain_timeout = absl::GetFlag(FLAGS_drain_timeout);
  return config;
}

}  // namespace

std::vector<std::string> WithUnderscores(const std::vector<std::string>& arguments) {
  std::vector<std::string> result = arguments;
  for (size_t i = 1; i < result.size() && result[i] != "--"; ++i) {
    if (!absl::StartsWith(result[i], "--")) continue;
    const auto name_end = std::find(result[i].begin() + 2, result[i].end(), '=');
    std::replace(result[i].begin() + 2, name_end, '-', '_');
  }
  return result;
}

void DescribeProgram() {
  absl::SetProgramUsageMessage("Serves attention over gRPC. docs/operations.md explains the flags.");
  absl::FlagsUsageConfig usage;
  usage.version_string = [] { return absl::StrCat("tessera-server ", kVersion, " (", kRevision, ")\n"); };
  // By itself Abseil's --help shows those of the file that has main, and there are none.
  usage.contains_help_flags = [](absl::string_view file) { return absl::EndsWith(__FILE__, file); };
  usage.contains_helpshort_flags = usage.contains_help_flags;
  absl::SetFlagsUsageConfig(usage);
}

absl::StatusOr<CommandLine> ParseCommandLine(int argc, char** argv) {
  const absl::StatusOr<std::vector<std::string>> words_and_files = ExpandFlagFiles({argv, argv + argc});
  if (!words_and_files.ok()) return words_and_files.status();
  std::vector<std::string> arguments = WithUnderscores(*words_and_files);
  std::vector<char*> pointers;
  pointers.reserve(arguments.size());
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  const std::vector<char*> words = absl::ParseCommandLine(static_cast<int>(pointers.size()), pointers.data());
  if (words.size() > 1) return absl::InvalidArgumentError(absl::StrCat(words[1], ": not a flag"));

  CommandLine command_line{ConfigFromFlags(), absl::GetFlag(FLAGS_log_level)};
  absl::StatusOr<std::vector<CacheProfile>> profiles = ParseCacheProfiles(absl::GetFlag(FLAGS_kv_profiles));
  if (!profiles.ok()) return profiles.status();
  command_line.config.kv_profiles = *std::move(profiles);
  absl::StatusOr<std::vector<std::string>> peers = ParsePeers(absl::GetFlag(FLAGS_peers));
  if (!peers.ok()) return peers.status();
  command_line.config.peers = *std::move(peers);
  if (absl::Status status = ValidateConfig(command_line.config); !status.ok()) return status;
  return command_line;
}

}  // namespace tessera
