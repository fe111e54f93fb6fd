// The command `tessera`: asks a server what it is, what it would plan, whether it is well, and for attention over .npy
// files. Exit codes are in kUsage.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/cpp/cli/byte_size.h"
#include "client/cpp/cli/npy.h"
#include "client/cpp/cli/npy_attend.h"
#include "client/cpp/cli/plan_tables.h"
#include "client/cpp/cli/profile_line.h"
#include "client/cpp/flags/command_line.h"
#include "client/cpp/flags/security_flags.h"
#include "client/cpp/tessera/client.h"

ABSL_FLAG(std::string, target, "localhost:7171", "the server: host:port, or unix:path");
ABSL_FLAG(absl::Duration, timeout, absl::Seconds(60), "how long to wait for the answer");
ABSL_FLAG(std::string, tenant, "", "the name under which the server accounts for the call");
ABSL_FLAG(int32_t, connections, 4, "connections that a large call is spread over");

ABSL_FLAG(tessera::ByteSize, sram, tessera::ByteSize{192 << 10}, "plan: on-chip memory of a block, such as 192KiB");
ABSL_FLAG(uint32_t, head_dim, 128, "plan: elements a head");
ABSL_FLAG(std::string, dtype, "float16", "plan: float32, float16 or bfloat16");
ABSL_FLAG(uint32_t, stages, 1, "plan: buffers of K and V each");
ABSL_FLAG(uint64_t, sequence_length, 4096, "plan: N, in tokens");
ABSL_FLAG(uint32_t, tile, 0, "plan: B to report instead of the planner's choice, a power of two from 16 to 256");

ABSL_FLAG(std::string, q, "", "attend: .npy file, [tokens, heads, head_dim]");
ABSL_FLAG(std::string, k, "", "attend: .npy file, [tokens, kv heads, head_dim]");
ABSL_FLAG(std::string, v, "", "attend: .npy file, as k");
ABSL_FLAG(std::string, out, "", "attend: .npy file to write o to");
ABSL_FLAG(std::string, lse, "", "attend: .npy file to write the log-sum-exp to; empty: not asked for");
ABSL_FLAG(std::vector<std::string>, q_lengths, {}, "attend: rows of q of each sequence; default: one sequence");
ABSL_FLAG(std::vector<std::string>, kv_lengths, {}, "attend: rows of k of each sequence; default: those of q");
ABSL_FLAG(std::string, mask, "full", "attend: full, causal or window");
ABSL_FLAG(int64_t, window_left, -1, "attend: keys before a row's own that it sees, with --mask=window; -1: all");
ABSL_FLAG(int64_t, window_right, -1, "attend: keys after it, with --mask=window; -1: all");
ABSL_FLAG(std::string, scale, "", "attend: factor on q.k; empty: 1 / sqrt(head_dim)");
ABSL_FLAG(float, softcap, 0, "attend: 0 is off");

ABSL_FLAG(std::string, service, "", "health: the service to ask about; empty: the whole server");

namespace tessera {
namespace {

constexpr char kUsage[] = R"(the client of a Tessera server

  tessera info     what the server is, its limits and how busy it is
  tessera plan     tile sizes: on-chip memory by component, and memory traffic of standard and tiled attention
                   [--sram=192KiB --head-dim=128 --dtype=float16 --stages=1 --sequence-length=4096 --tile=128]
  tessera attend   --q=q.npy --k=k.npy --v=v.npy --out=o.npy [--lse=lse.npy] [--mask=causal]
                   arrays [tokens, heads, head_dim] of float32, float16, or bfloat16 (as ml_dtypes saves it, or its bits
                   as uint16); --q-lengths=5,9 --kv-lengths=8,9 where they hold several sequences
  tessera health   whether the server is serving

With TLS: [--tls | --tls-ca=ca.crt] [--tls-certificate=own.crt --tls-private-key=own.key] [--token-file=token]

Exit codes: 0 done (health: serving); 1 the server refused or failed the call; 2 the command line or a file is wrong;
3 the server cannot be reached in time, or says that it is not serving.)";

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUnreachable = 3;

int Report(const absl::Status& status, int failed = kFailed) {
  if (status.ok()) return kDone;
  absl::FPrintF(stderr, "tessera: %s\n", status.ToString());
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ? kUnreachable : failed;
}

int WrongUsage(absl::string_view what) {
  absl::FPrintF(stderr, "tessera: %s\n", what);
  return kWrongUsage;
}

int RunInfo(Client* client) {
  const absl::StatusOr<v1::GetServerInfoResponse> info = client->GetServerInfo(absl::GetFlag(FLAGS_timeout));
  if (!info.ok()) return Report(info.status());
  const v1::Limits& limits = info->limits();
  const v1::Occupancy& occupancy = info->occupancy();
  absl::PrintF("server     %s (%s), backend %s, up %s\n", info->version(), info->revision(), info->backend(),
               absl::FormatDuration(absl::Seconds(static_cast<int64_t>(info->uptime_seconds()))));
  for (const v1::DeviceInfo& device : info->devices()) {
    absl::PrintF("device %-3d %s, kernel %s, %d slots", device.index(), device.name(), device.kernel(), device.slots());
    if (device.memory_bytes() > 0) {
      absl::PrintF(", memory %s of %s", FormatBytes(device.memory_used_bytes()), FormatBytes(device.memory_bytes()));
    }
    absl::PrintF("\n");
  }
  absl::PrintF("limits     message %s, call %s, %d sequences of %d tokens, %d heads\n",
               FormatBytes(limits.max_message_bytes()), FormatBytes(limits.max_request_bytes()), limits.max_sequences(),
               limits.max_sequence_tokens(), limits.max_heads());
  absl::PrintF("           queue %d calls, %s in flight, %d calls a stream\n", limits.max_queue_requests(),
               FormatBytes(limits.max_inflight_bytes()), limits.max_stream_calls());
  for (const v1::CacheProfile& profile : info->cache_profiles()) {
    absl::PrintF("profile    %s\n", FormatProfile(profile));
  }
  absl::PrintF("now        %d calls (%s) waiting, %s in flight, staging %s of %s\n", occupancy.queue_requests(),
               FormatBytes(occupancy.queue_bytes()), FormatBytes(occupancy.inflight_bytes()),
               FormatBytes(occupancy.staging_used_bytes()), FormatBytes(occupancy.staging_bytes()));
  return kDone;
}

int RunPlan(Client* client) {
  v1::PlanTilesRequest request;
  request.set_sram_bytes(static_cast<uint64_t>(absl::GetFlag(FLAGS_sram).bytes));
  request.set_head_dim(absl::GetFlag(FLAGS_head_dim));
  request.set_dtype(DataTypeNamed(absl::GetFlag(FLAGS_dtype)));
  request.set_stages(absl::GetFlag(FLAGS_stages));
  request.set_sequence_length(absl::GetFlag(FLAGS_sequence_length));
  request.set_tile(absl::GetFlag(FLAGS_tile));
  if (request.dtype() == v1::DATA_TYPE_UNSPECIFIED) {
    return WrongUsage(absl::StrCat("--dtype=", absl::GetFlag(FLAGS_dtype), ": expected float32, float16 or bfloat16"));
  }
  const absl::StatusOr<v1::PlanTilesResponse> plan = client->PlanTiles(request, absl::GetFlag(FLAGS_timeout));
  if (!plan.ok()) return Report(plan.status());
  absl::PrintF("%s", FormatPlan(request, *plan));
  return kDone;
}

int RunHealth(Client* client) {
  const absl::Status status = client->CheckHealth(absl::GetFlag(FLAGS_service), absl::GetFlag(FLAGS_timeout));
  if (status.ok()) absl::PrintF("SERVING\n");
  return Report(status);
}

bool ParseLengths(const std::vector<std::string>& texts, google::protobuf::RepeatedField<uint32_t>* lengths) {
  for (const std::string& text : texts) {
    uint32_t length = 0;
    if (!absl::SimpleAtoi(text, &length)) return false;
    lengths->Add(length);
  }
  return true;
}

// The header's part that flags decide; the rest comes from the arrays.
absl::StatusOr<v1::AttendHeader> HeaderFromFlags() {
  v1::AttendHeader header;
  if (!ParseLengths(absl::GetFlag(FLAGS_q_lengths), header.mutable_q_lengths())) {
    return absl::InvalidArgumentError("--q-lengths: expected whole numbers, such as 5,9");
  }
  if (!ParseLengths(absl::GetFlag(FLAGS_kv_lengths), header.mutable_kv_lengths())) {
    return absl::InvalidArgumentError("--kv-lengths: expected whole numbers, such as 5,9");
  }
  v1::AttentionOptions& options = *header.mutable_options();
  const std::string mask = absl::GetFlag(FLAGS_mask);
  if (mask == "full") {
    options.mutable_mask()->set_kind(v1::MASK_KIND_FULL);
  } else if (mask == "causal") {
    options.mutable_mask()->set_kind(v1::MASK_KIND_CAUSAL);
  } else if (mask == "window") {
    options.mutable_mask()->set_kind(v1::MASK_KIND_WINDOW);
    options.mutable_mask()->set_window_left(absl::GetFlag(FLAGS_window_left));
    options.mutable_mask()->set_window_right(absl::GetFlag(FLAGS_window_right));
  } else {
    return absl::InvalidArgumentError(absl::StrCat("--mask=", mask, ": expected full, causal or window"));
  }
  if (const std::string text = absl::GetFlag(FLAGS_scale); !text.empty()) {
    float scale = 0;
    if (!absl::SimpleAtof(text, &scale)) return absl::InvalidArgumentError("--scale: expected a number");
    options.set_scale(scale);
  }
  options.set_softcap(absl::GetFlag(FLAGS_softcap));
  options.set_return_lse(!absl::GetFlag(FLAGS_lse).empty());
  return header;
}

int RunAttend(Client* client) {
  if (absl::GetFlag(FLAGS_q).empty() || absl::GetFlag(FLAGS_k).empty() || absl::GetFlag(FLAGS_v).empty() ||
      absl::GetFlag(FLAGS_out).empty()) {
    return WrongUsage("attend needs --q, --k, --v and --out");
  }
  const absl::StatusOr<v1::AttendHeader> header = HeaderFromFlags();
  if (!header.ok()) return WrongUsage(header.status().message());
  const absl::StatusOr<NpyArray> q = ReadNpy(absl::GetFlag(FLAGS_q));
  if (!q.ok()) return WrongUsage(q.status().message());
  const absl::StatusOr<NpyArray> k = ReadNpy(absl::GetFlag(FLAGS_k));
  if (!k.ok()) return WrongUsage(k.status().message());
  const absl::StatusOr<NpyArray> v = ReadNpy(absl::GetFlag(FLAGS_v));
  if (!v.ok()) return WrongUsage(v.status().message());

  const absl::Time start = absl::Now();
  const absl::StatusOr<NpyAnswer> answer = AttendNpy(client, *header, *q, *k, *v, absl::GetFlag(FLAGS_timeout));
  if (!answer.ok()) return Report(answer.status());
  const absl::Duration elapsed = absl::Now() - start;

  absl::Status written = WriteNpy(absl::GetFlag(FLAGS_out), answer->o);
  if (!absl::GetFlag(FLAGS_lse).empty()) written.Update(WriteNpy(absl::GetFlag(FLAGS_lse), answer->lse));
  if (!written.ok()) return Report(written, kWrongUsage);
  const v1::Timing& timing = answer->reply.result.timing();
  absl::PrintF("%s: [%s]; %s in all, of which in the server: receive %s, queue %s, run %s (a batch of %d)\n",
               absl::GetFlag(FLAGS_out), absl::StrJoin(answer->o.shape, ", "), absl::FormatDuration(elapsed),
               absl::FormatDuration(absl::Nanoseconds(timing.receive_ns())),
               absl::FormatDuration(absl::Nanoseconds(timing.queue_ns())),
               absl::FormatDuration(absl::Nanoseconds(timing.run_ns())), timing.batch_requests());
  return kDone;
}

int Main(int argc, char** argv) {
  absl::SetProgramUsageMessage(kUsage);
  absl::FlagsUsageConfig usage;
  usage.contains_help_flags = [](absl::string_view file) {
    return absl::EndsWith(file, "cli/main.cc") || absl::EndsWith(file, "flags/security_flags.cc");
  };
  usage.contains_helpshort_flags = usage.contains_help_flags;
  absl::SetFlagsUsageConfig(usage);
  const std::vector<char*> words = ParseFlags(argc, argv);
  if (words.size() != 2) return WrongUsage(absl::StrCat("expected one command\n\n", kUsage));
  const std::string command = words[1];
  if (absl::GetFlag(FLAGS_timeout) <= absl::ZeroDuration()) return WrongUsage("--timeout: must be over 0");

  ClientOptions options;
  options.tenant = absl::GetFlag(FLAGS_tenant);
  options.connections = absl::GetFlag(FLAGS_connections);
  if (const absl::Status status = SetSecurity(&options); !status.ok()) return WrongUsage(status.message());
  const absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(absl::GetFlag(FLAGS_target), options);
  if (!client.ok()) return WrongUsage(client.status().message());
  if (command == "info") return RunInfo(client->get());
  if (command == "plan") return RunPlan(client->get());
  if (command == "attend") return RunAttend(client->get());
  if (command == "health") return RunHealth(client->get());
  return WrongUsage(absl::StrCat("no command '", command, "'\n\n", kUsage));
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  // As in the server; and where destroyed mutexes are not forgotten, cycles are found among those of different times.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const int code = tessera::Main(argc, argv);
  if (std::fflush(stdout) == 0) return code;
  std::perror("tessera: standard output");
  return tessera::kFailed;
}
