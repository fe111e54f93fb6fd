// Sends a server, in a process of its own, a long mixture of good, bad, cancelled, expired and broken-off calls, and
// fails where its resident memory grows, something does not come back, an answer is not one that its call may have, or
// all calls of a kind were refused. On a GPU the device's memory counts, too: what batches used must come back, and
// what launches took must not grow.
//
//   server_soak --server=PATH [--requests=100000] [--callers=4] [--growth=0.02] [--seed=N]
//
// Memory is compared after the first fifth of the calls (warm-up) and at the end. A call that fills the staging memory
// comes first: its pages become resident when they are first used, and are never given back.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "grpcpp/create_channel.h"
#include "tests/server/attend_messages.h"
#include "tests/server/await.h"
#include "tests/server/metrics_reader.h"
#include "tests/server/server_process.h"
#include "tests/server/soak/caller.h"
#include "tests/server/stream_client.h"

ABSL_FLAG(std::string, server, "", "Path of tessera-server");
ABSL_FLAG(int64_t, requests, 100000, "Calls in all");
ABSL_FLAG(int, callers, 4, "Callers at work at a time, each on a connection of its own");
ABSL_FLAG(double, growth, 0.02, "Growth of resident memory that is allowed");
ABSL_FLAG(uint64_t, seed, std::random_device()(), "Seed of all choices");

namespace tessera::testing {
namespace {

// Runs `calls` calls, spread over the callers. Returns whether every answer was one that its call may have.
bool RunCalls(std::vector<std::unique_ptr<Caller>>& callers, int64_t calls) {
  std::atomic<int64_t> left{calls};
  std::atomic<bool> good{true};
  std::vector<std::thread> threads;
  for (auto& caller : callers) {
    threads.emplace_back([&left, &good, &caller] {
      while (left.load() > 0 && good.load()) {
        const int64_t made = caller->Step();
        if (made == 0) good = false;
        left -= made;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return good;
}

// Makes all of the server's staging memory resident, but for what does not fit a call.
bool FillStaging(v1::AttentionService::Stub& stub) {
  v1::AttendRequest request;
  *request.mutable_header() = Header(std::vector<uint32_t>(124, 16), 16, 128);
  const std::string tensor(QBytes(request.header()), '\0');
  request.set_q(tensor);
  request.set_k(tensor);
  request.set_v(tensor);
  StreamClient stream(stub);
  stream.Send(StreamMessages(1, request, 1 << 20));
  return stream.Await(1).status.code() == 0;
}

// Memory with nothing in flight, in bytes.
struct IdleMemory {
  int64_t resident = 0;
  int64_t launch = 0;  // of the device, beside its arena
};

// Nothing where the server still holds memory long after the last call.
std::optional<IdleMemory> MeasureIdle(const ServerProcess& server) {
  double launch = 0;
  const bool idle = AwaitWithTimeout(
      [&] {
        const MetricsReader metrics = MetricsReader::Scrape(server.metrics_port());
        launch = metrics["tessera_device_memory_bytes{device=\"0\",kind=\"launch\"}"];
        return metrics["tessera_inflight_bytes"] == 0 && metrics["tessera_pinned_memory_bytes{kind=\"used\"}"] == 0 &&
               metrics["tessera_device_memory_bytes{device=\"0\",kind=\"used\"}"] == 0;
      },
      kLongestWait);
  if (!idle) {
    std::cerr << "memory is still held with nothing in flight\n";
    return std::nullopt;
  }
  return IdleMemory{server.ResidentBytes(), static_cast<int64_t>(launch)};
}

// Prints what the calls came to. False, having said what on standard error, where something never happened; that a call
// is refused for now need not.
bool AllHappened(const std::vector<std::unique_ptr<Caller>>& callers) {
  bool all = true;
  for (const char* outcome : Caller::kOutcomes) {
    int64_t count = 0;
    for (const auto& caller : callers) count += caller->Count(outcome);
    std::cout << "  " << outcome << ": " << count << "\n";
    if (count > 0 || outcome == Caller::kRefused) continue;
    std::cerr << "never happened: " << outcome << "\n";
    all = false;
  }
  return all;
}

int Soak() {
  const uint64_t seed = absl::GetFlag(FLAGS_seed);
  const int64_t requests = absl::GetFlag(FLAGS_requests);
  std::cout << "seed " << seed << ", " << requests << " requests\n";
  const ServerProcess server(absl::GetFlag(FLAGS_server),
                             {"--staging-bytes=64MiB", "--max-inflight-bytes=128MiB", "--log-level=error"});
  if (!server.serving()) {
    std::cerr << "the server does not start\n";
    return 1;
  }
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < absl::GetFlag(FLAGS_callers); ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetInt("tessera.test.channel", i);
    callers.push_back(std::make_unique<Caller>(
        grpc::CreateCustomChannel(server.target(), grpc::InsecureChannelCredentials(), arguments),
        seed + static_cast<uint64_t>(i)));
  }

  if (!FillStaging(
          *v1::AttentionService::NewStub(grpc::CreateChannel(server.target(), grpc::InsecureChannelCredentials())))) {
    std::cerr << "the largest call failed\n";
    return 1;
  }
  const int64_t warm_up = requests / 5;
  if (!RunCalls(callers, warm_up)) return 1;
  const std::optional<IdleMemory> before = MeasureIdle(server);
  if (!before.has_value()) return 1;
  constexpr int kSamples = 8;
  const int64_t measured = requests - warm_up;
  for (int sample = 1; sample <= kSamples; ++sample) {
    if (!RunCalls(callers, measured * sample / kSamples - measured * (sample - 1) / kSamples)) return 1;
    std::cout << "  resident: " << server.ResidentBytes() / 1024 << " KiB\n" << std::flush;
  }
  const std::optional<IdleMemory> after = MeasureIdle(server);
  if (!after.has_value()) return 1;

  const bool all_happened = AllHappened(callers);
  const double growth = static_cast<double>(after->resident - before->resident) / static_cast<double>(before->resident);
  std::cout << "resident: " << before->resident / 1024 << " KiB after warm-up, " << after->resident / 1024
            << " KiB at the end, growth " << std::round(growth * 10000) / 100 << " %\n"
            << "device memory of launches: " << before->launch / 1024 << " KiB after warm-up, " << after->launch / 1024
            << " KiB at the end\n";
  if (after->launch > before->launch) {
    std::cerr << "the memory that launches took of the device grew\n";
    return 1;
  }
  if (growth > absl::GetFlag(FLAGS_growth)) {
    std::cerr << "resident memory grew by more than " << absl::GetFlag(FLAGS_growth) * 100 << " %\n";
    return 1;
  }
  return all_happened ? 0 : 1;
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return tessera::testing::Soak();
}
