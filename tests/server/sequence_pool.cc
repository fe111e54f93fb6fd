// Full pools of pages under load, each on a server process of its own: without room on the host, with room, and with
// pages of fp8. Prints a JSON line for each; fails where an answer is not as defined or not one that its call may have,
// where the server has counted other refusals than the callers saw, or where a page is left or was never moved.
//
//   sequence_pool --server=PATH [--backend=auto] [--callers=6] [--operations=150] [--tolerance=1e-5] [--seed=N]
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <random>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/create_channel.h"
#include "tests/server/metrics_reader.h"
#include "tests/server/pool_load.h"
#include "tests/server/profile_flag.h"
#include "tests/server/server_process.h"

ABSL_FLAG(std::string, server, "", "Path of tessera-server");
ABSL_FLAG(std::string, backend, "auto", "The server's");
ABSL_FLAG(int, callers, 6, "Callers at work at a time, each a tenant on a connection of its own");
ABSL_FLAG(int, operations, 150, "Of each caller");
ABSL_FLAG(double, tolerance, 1e-5, "Error of o and LSE that is allowed");
ABSL_FLAG(uint64_t, seed, std::random_device()(), "Seed of all choices");

namespace tessera::testing {
namespace {

// One load of one pool. False, having said why on standard error, where something is wrong.
bool Load(const CacheProfile& profile) {
  const ServerProcess server(absl::GetFlag(FLAGS_server),
                             {ProfileFlag(profile), "--staging-bytes=64MiB", "--log-level=error",
                              absl::StrCat("--backend=", absl::GetFlag(FLAGS_backend))});
  if (!server.serving()) {
    std::cerr << "the server does not start\n";
    return false;
  }
  const auto connect = [&server] {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // channels with equal arguments would share a connection
    return grpc::CreateCustomChannel(server.target(), grpc::InsecureChannelCredentials(), arguments);
  };
  const absl::Time begun = absl::Now();
  const PoolReport report = RunPoolLoad(connect, profile,
                                        {.callers = absl::GetFlag(FLAGS_callers),
                                         .operations = absl::GetFlag(FLAGS_operations),
                                         .seed = absl::GetFlag(FLAGS_seed)});
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begun);
  const MetricsReader metrics = MetricsReader::Scrape(server.metrics_port());
  const auto moved = [&](const char* to) {
    return metrics[absl::StrCat("tessera_kv_moved_pages_total{profile=\"", profile.name, "\",to=\"", to, "\"}")];
  };
  std::printf(
      "{\"pages\": %d, \"host_pages\": %d, \"kv_dtype\": \"%s\", \"seconds\": %.2f, \"extended\": %lld, "
      "\"refused\": %lld, \"counted_refused\": %.0f, \"moved_to_host\": %.0f, \"moved_to_device\": %.0f, "
      "\"let_go\": %lld, \"read_at_end\": %lld, \"failed\": %lld, \"worst_error\": %.2g}\n",
      profile.pages, profile.host_pages, std::string(Name(profile.kv_dtype())).c_str(), seconds,
      static_cast<long long>(report.extended), static_cast<long long>(report.refused),
      metrics["tessera_rejected_total{reason=\"kv_pages\"}"], moved("host"), moved("device"),
      static_cast<long long>(report.let_go), static_cast<long long>(report.read_at_end),
      static_cast<long long>(report.failed), report.worst_error);
  std::fflush(stdout);
  const std::string wrong = WrongInPoolMetrics(metrics, profile, report);
  std::cerr << wrong;
  if (report.worst_error > absl::GetFlag(FLAGS_tolerance)) std::cerr << "an answer is not as defined\n";
  if (report.refused == 0 || report.read_at_end == 0) std::cerr << "the pool was never full, or nothing was left\n";
  return report.failed == 0 && wrong.empty() && report.worst_error <= absl::GetFlag(FLAGS_tolerance) &&
         report.refused > 0 && report.read_at_end > 0;
}

int LoadAll() {
  std::cerr << "seed " << absl::GetFlag(FLAGS_seed) << "\n";
  bool good = Load(PoolProfile("pool", /*host_pages=*/0));
  good &= Load(PoolProfile("pool", /*host_pages=*/40));
  good &= Load(PoolProfile("pool", /*host_pages=*/40, /*float8=*/true));
  return good ? 0 : 1;
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return tessera::testing::LoadAll();
}
