// tessera-server: see docs/operations.md for flags, signals and exit codes.
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "server/clock/clock.h"
#include "server/config/file_bounds.h"
#include "server/config/flags.h"
#include "server/open_devices.h"
#include "server/process/exit_watchdog.h"
#include "server/process/heap.h"
#include "server/process/library_log.h"
#include "server/process/logging.h"
#include "server/process/stop_signals.h"
#include "server/process/version.h"
#include "server/server.h"

namespace tessera {
namespace {

constexpr int kExitUsage = 64;
constexpr int kExitUnavailable = 69;

// Time for answers to reach their clients after the device is lost.
constexpr absl::Duration kLastAnswers = absl::Seconds(2);

// Time for connections to let go of their last answers' memory, and then for everything else to be destroyed.
constexpr absl::Duration kReleaseTime = absl::Seconds(1);
constexpr absl::Duration kDestroyTime = absl::Seconds(4);

// What ends the serving, whichever comes first.
class Ending {
 public:
  void Stop() {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  void DevicesLost() {
    absl::MutexLock lock(&mutex_);
    lost_ = true;
  }

  void AwaitAny() {
    absl::MutexLock lock(&mutex_);
    const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_ || lost_; };
    mutex_.Await(absl::Condition(&any));
  }
  // Whether no device is left, at the latest after `timeout`.
  bool AwaitDevicesLost(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&lost_), timeout);
  }

 private:
  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
};

// Connections and regions are file descriptors: takes as many as the system gives without asking for more, and lowers
// the bounds to those.
void FitToFiles(ServerConfig* config) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  if (limit.rlim_cur != limit.rlim_max) {
    const rlimit raised = {limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  const FileBounds bounds = BoundByFiles(*config, limit.rlim_cur);
  if (bounds.max_connections != config->max_connections) {
    Log(LogLevel::kWarning, "connections_bounded_by_file_limit",
        {{"file_limit", limit.rlim_cur}, {"max_connections", bounds.max_connections}});
  }
  if (bounds.max_regions != config->regions.max_regions) {
    Log(LogLevel::kWarning, "regions_bounded_by_file_limit",
        {{"file_limit", limit.rlim_cur}, {"max_regions", bounds.max_regions}});
  }
  config->max_connections = bounds.max_connections;
  config->regions.max_regions = bounds.max_regions;
}

int Fail(const absl::Status& status) {
  Log(LogLevel::kError, "start_failed", {{"status", status.ToString()}});
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitUnavailable;
}

// The one line on standard output, for programs that start servers.
void Announce(const ServerConfig& config, const Server& server, const std::vector<std::unique_ptr<Device>>& devices) {
  const nlohmann::ordered_json line = {{"event", "serving"},
                                       {"grpc_port", server.grpc_port()},
                                       {"metrics_port", server.metrics_port()},
                                       {"health_port", server.health_port()}};
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
  const DeviceInfo info = devices.front()->info();
  Log(LogLevel::kInfo, "serving",
      {{"grpc_port", server.grpc_port()},
       {"metrics_port", server.metrics_port()},
       {"health_port", server.health_port()},
       {"tls", !config.tls_certificate.empty()},
       {"client_certificates", !config.tls_client_ca.empty()},
       {"tokens", !config.token_file.empty()},
       {"version", kVersion},
       {"revision", kRevision},
       {"devices", devices.size()},
       {"device", info.name},
       {"kernel", info.kernel},
       {"slots", info.slots}});
}

// The devices may never come back, so nothing that waits for it is destroyed.
[[noreturn]] void ExitDevicesLost(Server* server) {
  server->Drain(kLastAnswers);
  FlushLog();
  _exit(Server::kDeviceLostExitCode);
}

int Serve(ServerConfig config) {
  Ending ending;
  ExitWatchdog watchdog;  // outlives all whose destruction it watches
  const StopSignals signals([&ending](int signal) {
    Log(LogLevel::kInfo, "stop_requested", {{"signal", signal}});
    ending.Stop();
  });
  FitToFiles(&config);

  const absl::StatusOr<std::vector<std::unique_ptr<Device>>> devices = OpenDevices(config);
  if (!devices.ok()) return Fail(devices.status());
  std::vector<Device*> borrowed;
  for (const std::unique_ptr<Device>& device : *devices) borrowed.push_back(device.get());
  absl::StatusOr<std::unique_ptr<Server>> started = Server::Start(
      config, std::move(borrowed), Clock::Real(), [&ending](const absl::Status& /*why*/) { ending.DevicesLost(); });
  if (!started.ok()) return Fail(started.status());
  Server& server = **started;
  Announce(config, server, *devices);

  ending.AwaitAny();
  server.StopAccepting();
  if (ending.AwaitDevicesLost(absl::ZeroDuration())) ExitDevicesLost(&server);
  Log(LogLevel::kInfo, "draining", {{"grace", absl::FormatDuration(config.drain_grace)}});
  if (ending.AwaitDevicesLost(config.drain_grace)) ExitDevicesLost(&server);
  watchdog.Arm(config.drain_timeout + Server::kFlushTime + kReleaseTime + kDestroyTime);
  const bool drained = server.Drain(config.drain_timeout);
  if (ending.AwaitDevicesLost(absl::ZeroDuration())) ExitDevicesLost(&server);
  const bool released = server.AwaitMemory(kReleaseTime);
  Log(LogLevel::kInfo, "stopped", {{"all_calls_ended", drained}, {"memory_released", released}});
  if (!released) {
    FlushLog();
    _exit(0);
  }
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::SetUpHeap();
  // A log whose reader has gone must not end the process; writing to it fails instead.
  std::signal(SIGPIPE, SIG_IGN);
  // Nor must a region of shared memory that is larger than the limit on files (ulimit -f).
  std::signal(SIGXFSZ, SIG_IGN);
  // Abseil as distributions build it looks for lock cycles, at every lock of any mutex, gRPC's included, under one
  // global spin lock: several times the cost of a small call. Tests, which do not come by here, keep the check.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  tessera::RouteLibraryLogs();
  tessera::DescribeProgram();
  const absl::StatusOr<tessera::CommandLine> command_line = tessera::ParseCommandLine(argc, argv);
  if (!command_line.ok()) return tessera::Fail(command_line.status());
  if (const absl::Status status = tessera::SetLogLevel(command_line->log_level); !status.ok()) {
    return tessera::Fail(status);
  }
  const int exit_code = tessera::Serve(command_line->config);
  tessera::FlushLog();
  return exit_code;
}
