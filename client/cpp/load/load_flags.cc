#include "client/cpp/load/load_flags.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cpp/flags/security_flags.h"

ABSL_DECLARE_FLAG(std::string, shape);

namespace tessera::load {
namespace {

// Every value that --shape was given. A flag itself keeps only its last one.
std::vector<std::string>& ShapeFlags() {
  static auto* const shapes = new std::vector<std::string>;
  return *shapes;
}

void CollectShapeFlag() {
  const std::string shape = absl::GetFlag(FLAGS_shape);
  if (!shape.empty()) ShapeFlags().push_back(shape);
}

}  // namespace
}  // namespace tessera::load

ABSL_FLAG(std::string, target, "localhost:7171",
          "Server to load, or several between commas; empty: none, only the echo of --echo");
ABSL_FLAG(bool, every_address, false, "Every address that the target's name has is a server: a headless Service");
ABSL_FLAG(
    std::string, shape, "",
    "A shape of the mix, such as s=128,heads=16,kv_heads=16,d=128,dtype=bf16,mask=causal,weight=3; repeat the flag "
    "for more. Keys: s, kv, sequences, heads, kv_heads, d, dtype (fp32, fp16, bf16), mask (full, causal, "
    "window:LEFT:RIGHT), lse, weight, priority, tenant, timeout, name. Default: s=128,mask=causal")
    .OnUpdate([] { tessera::load::CollectShapeFlag(); });
ABSL_FLAG(
    std::string, decode, "",
    "Decode on a server's sequences instead: such as profile=main,heads=32,prefill=100~60000,steps=64. A caller, or an "
    "arrival, is a group of sequences; a request, one such group. Keys: profile (required), heads, layers, prefill and "
    "steps (N, A/B/C, LOW..HIGH, LOW~HIGH with a uniform logarithm), tokens (a step), chunk (tokens of a prefill's "
    "call), group (sequences in one call)");
ABSL_FLAG(std::string, mode, "closed", "closed, poisson, constant (open loops) or ramp");
ABSL_FLAG(int32_t, callers, 64, "closed: callers, each with one request in flight");
ABSL_FLAG(double, rate, 100, "poisson, constant: requests a second");
ABSL_FLAG(std::optional<absl::Duration>, duration, std::nullopt,
          "Measured time; of a ramp: of each step. Default: 10s, or without end where --requests is given");
ABSL_FLAG(int64_t, requests, 0, "Stop after so many measured requests; 0: no bound");
ABSL_FLAG(absl::Duration, warm_up, absl::Seconds(2), "Time before measuring; of a ramp: before each step");
ABSL_FLAG(int64_t, max_in_flight, 4096, "Open loops: what is due beyond it is dropped and counted");

ABSL_FLAG(double, ramp_start, 50, "ramp: first rate");
ABSL_FLAG(double, ramp_growth, 1.5, "ramp: factor from step to step");
ABSL_FLAG(double, ramp_max, 100000, "ramp: last rate");
ABSL_FLAG(int32_t, ramp_refinements, 3, "ramp: bisections once a rate has broken the SLO");
ABSL_FLAG(std::string, ramp_arrivals, "poisson", "ramp: poisson or constant");
ABSL_FLAG(absl::Duration, slo_p99, absl::Milliseconds(100), "ramp: p99 latency to keep");
ABSL_FLAG(double, slo_errors, 0.01, "ramp: share of requests that may fail or be dropped");

ABSL_FLAG(int32_t, connections, 4, "Connections to each server, of each tenant");
ABSL_FLAG(std::string, transport, "auto", "auto, unary or stream");
ABSL_FLAG(
    std::string, regions, "none",
    "Where tensors lie: none, in messages; shm, in memory shared with a server on this host; cuda, on GPU 0, which "
    "such a server reads and writes. With --mode=closed");
ABSL_FLAG(absl::Duration, timeout, absl::Seconds(30), "Deadline of a request, from its sending");
ABSL_FLAG(std::string, priority, "normal", "low, normal or high");
ABSL_FLAG(std::vector<std::string>, tenants, {}, "Comma-separated tenants that send in turn");
ABSL_FLAG(int32_t, attempts, 1, "Over 1: the client retries, which hides overload in latency");

ABSL_FLAG(int32_t, payloads, 4, "Different random payloads of each shape");
ABSL_FLAG(int64_t, verify, 0, "Answers to keep and check in double precision after the run");
ABSL_FLAG(uint64_t, seed, 1, "Of payloads, mix and arrivals");
ABSL_FLAG(int64_t, give_up_after, 1000, "Stop after so many failures in a row that load does not explain; 0: never");

ABSL_FLAG(bool, echo, false, "Load a raw echo server too, with the same bytes");
ABSL_FLAG(int32_t, rounds, 1,
          "Cut the run into so many parts, server and echo in turn, so that a drift of the machine meets both");
ABSL_FLAG(std::string, echo_target, "", "Echo server to load; default: one in this process. Implies --echo");
ABSL_FLAG(std::string, serve_echo, "", "Only serve echo, on this address, such as 0.0.0.0:7172");

ABSL_FLAG(bool, progress, true, "A line to stderr each second");
ABSL_FLAG(std::string, json, "", "File to write the JSON report to");
ABSL_FLAG(std::string, html, "", "File to write the HTML report to");

namespace tessera::load {
namespace {

absl::Status Unknown(absl::string_view flag, absl::string_view value, absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", value, ": must be ", wanted));
}

absl::Status ParseMode(const std::string& text, LoadMode* mode) {
  for (const auto& [name, value] : {std::pair{"closed", LoadMode::kClosed},
                                    {"poisson", LoadMode::kPoisson},
                                    {"constant", LoadMode::kConstant},
                                    {"ramp", LoadMode::kRamp}}) {
    if (text == name) {
      *mode = value;
      return absl::OkStatus();
    }
  }
  return Unknown("mode", text, "closed, poisson, constant or ramp");
}

absl::Status ParseTransport(const std::string& text, Transport* transport) {
  for (const auto& [name, value] :
       {std::pair{"auto", Transport::kAuto}, {"unary", Transport::kUnary}, {"stream", Transport::kStream}}) {
    if (text == name) {
      *transport = value;
      return absl::OkStatus();
    }
  }
  return Unknown("transport", text, "auto, unary or stream");
}

absl::Status ParseRegions(const std::string& text, RegionKind* kind) {
  for (const auto& [name, value] :
       {std::pair{"none", RegionKind::kNone}, {"shm", RegionKind::kSharedMemory}, {"cuda", RegionKind::kCuda}}) {
    if (text == name) {
      *kind = value;
      return absl::OkStatus();
    }
  }
  return Unknown("regions", text, "none, shm or cuda");
}

absl::Status ParseArrivals(const std::string& text, ArrivalProcess* process) {
  if (text != "poisson" && text != "constant") return Unknown("ramp_arrivals", text, "poisson or constant");
  *process = text == "poisson" ? ArrivalProcess::kPoisson : ArrivalProcess::kConstant;
  return absl::OkStatus();
}

absl::Status ParseDecode(const std::string& text, std::optional<DecodeShape>* decode) {
  if (text.empty()) return absl::OkStatus();
  if (!ShapeFlags().empty()) return absl::InvalidArgumentError("--shape: not with --decode");
  absl::StatusOr<DecodeShape> shape = ParseDecodeShape(text);
  if (!shape.ok()) return shape.status();
  *decode = *std::move(shape);
  return absl::OkStatus();
}

absl::Status ParseShapes(std::vector<CallShape>* shapes) {
  std::vector<std::string> texts = ShapeFlags();
  if (texts.empty()) texts = {"s=128,mask=causal"};
  for (const std::string& text : texts) {
    absl::StatusOr<CallShape> shape = ParseCallShape(text);
    if (!shape.ok()) return shape.status();
    shapes->push_back(*std::move(shape));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadConfig> ConfigFromFlags() {
  LoadConfig config;
  const int64_t requests = absl::GetFlag(FLAGS_requests);
  config.server.address = absl::GetFlag(FLAGS_target);
  config.server.every_address = absl::GetFlag(FLAGS_every_address);
  config.server.connections = absl::GetFlag(FLAGS_connections);
  config.server.tenants = absl::GetFlag(FLAGS_tenants);
  config.server.timeout = absl::GetFlag(FLAGS_timeout);
  config.server.attempts = absl::GetFlag(FLAGS_attempts);
  config.callers = absl::GetFlag(FLAGS_callers);
  config.rate = absl::GetFlag(FLAGS_rate);
  config.length.warm_up = absl::GetFlag(FLAGS_warm_up);
  config.length.max_requests = requests;
  config.length.measured =
      absl::GetFlag(FLAGS_duration).value_or(requests > 0 ? absl::InfiniteDuration() : absl::Seconds(10));
  config.max_in_flight = absl::GetFlag(FLAGS_max_in_flight);
  config.ramp.first_rate = absl::GetFlag(FLAGS_ramp_start);
  config.ramp.growth = absl::GetFlag(FLAGS_ramp_growth);
  config.ramp.max_rate = absl::GetFlag(FLAGS_ramp_max);
  config.ramp.refinements = absl::GetFlag(FLAGS_ramp_refinements);
  config.ramp.slo = {absl::GetFlag(FLAGS_slo_p99), absl::GetFlag(FLAGS_slo_errors)};
  config.payloads = absl::GetFlag(FLAGS_payloads);
  config.verify = absl::GetFlag(FLAGS_verify);
  config.seed = absl::GetFlag(FLAGS_seed);
  config.give_up_after = absl::GetFlag(FLAGS_give_up_after);
  config.rounds = absl::GetFlag(FLAGS_rounds);
  config.echo_address = absl::GetFlag(FLAGS_echo_target);
  config.echo = absl::GetFlag(FLAGS_echo) || !config.echo_address.empty();
  config.progress = absl::GetFlag(FLAGS_progress);
  config.json_path = absl::GetFlag(FLAGS_json);
  config.html_path = absl::GetFlag(FLAGS_html);

  ClientOptions security;
  absl::Status status = SetSecurity(&security);
  config.server.credentials = security.credentials;
  config.server.server_name = security.server_name;
  absl::StatusOr<v1::Priority> priority = ParsePriority(absl::GetFlag(FLAGS_priority));
  status.Update(priority.status());
  status.Update(ParseMode(absl::GetFlag(FLAGS_mode), &config.mode));
  status.Update(ParseTransport(absl::GetFlag(FLAGS_transport), &config.server.transport));
  status.Update(ParseRegions(absl::GetFlag(FLAGS_regions), &config.regions));
  status.Update(ParseArrivals(absl::GetFlag(FLAGS_ramp_arrivals), &config.ramp.process));
  status.Update(ParseShapes(&config.shapes));
  status.Update(ParseDecode(absl::GetFlag(FLAGS_decode), &config.decode));
  if (!status.ok()) return status;
  config.server.priority = *priority;
  status = CompleteConfig(&config);
  if (!status.ok()) return status;
  return config;
}

bool IsOfThisProgram(absl::string_view file) {
  return absl::EndsWith(file, "load/load_flags.cc") || absl::EndsWith(file, "flags/security_flags.cc");
}

std::string ServeEchoAddress() { return absl::GetFlag(FLAGS_serve_echo); }

std::vector<std::pair<std::string, std::string>> FlagValues() {
  std::vector<std::pair<std::string, std::string>> values;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (!IsOfThisProgram(flag->Filename()) || name == "shape") continue;
    values.emplace_back(name, flag->CurrentValue());
  }
  std::sort(values.begin(), values.end());
  int ordinal = 0;
  for (const std::string& shape : ShapeFlags()) values.emplace_back(absl::StrCat("shape ", ++ordinal), shape);
  return values;
}

}  // namespace tessera::load
