#include "client/cpp/load/load_run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/load/answer_check.h"
#include "client/cpp/load/answer_sampler.h"
#include "client/cpp/load/dispatcher.h"
#include "client/cpp/load/echo_server.h"
#include "client/cpp/load/echo_target.h"
#include "client/cpp/load/progress.h"
#include "client/cpp/load/recorder.h"
#include "client/cpp/load/tessera_target.h"

namespace tessera::load {
namespace {

constexpr int kRowsCheckedPerAnswer = 16;

// About 60 points in a plot of a short run, and no more than 600 in one of a long run.
absl::Duration TimelineInterval(const LoadConfig& config) {
  const absl::Duration length = config.length.warm_up + config.length.measured;
  if (config.mode == LoadMode::kRamp || length == absl::InfiniteDuration()) return absl::Seconds(1);
  return std::clamp(length / 60, absl::Milliseconds(100), std::max(absl::Seconds(1), length / 600));
}

TargetReport Offer(const LoadConfig& config, const std::string& name, absl::Duration origin, Dispatcher* dispatcher) {
  TargetReport report;
  report.name = name;
  switch (config.mode) {
    case LoadMode::kClosed:
      report.stats = RunClosedLoop(config.callers, config.length, dispatcher);
      break;
    case LoadMode::kPoisson:
    case LoadMode::kConstant: {
      const ArrivalProcess process =
          config.mode == LoadMode::kPoisson ? ArrivalProcess::kPoisson : ArrivalProcess::kConstant;
      report.stats = RunOpenLoop({process, config.rate, config.max_in_flight, config.seed}, config.length, dispatcher);
      break;
    }
    case LoadMode::kRamp:
      report.ramp = RunRamp(config.ramp, origin, dispatcher);
      if (!report.ramp->steps.empty()) {
        report.stats = report.ramp->steps[static_cast<size_t>(std::max(report.ramp->knee, 0))].stats;
      }
      break;
  }
  return report;
}

absl::StatusOr<TargetReport> LoadTarget(const LoadConfig& config, const std::string& name, Target* target,
                                        const std::atomic<bool>* interrupted) {
  LoadClock* const clock = LoadClock::Real();
  // The same seed for each target: they see the same calls at the same times.
  Workload workload(config.shapes, config.seed);
  const absl::Duration origin = clock->Now();
  Recorder recorder(config.shapes, origin, TimelineInterval(config));
  Dispatcher dispatcher(&workload, target, clock, &recorder, config.give_up_after, interrupted);
  std::optional<ProgressLine> progress;
  if (config.progress) progress.emplace(name, &dispatcher);
  TargetReport report = Offer(config, name, origin, &dispatcher);
  progress.reset();
  if (const absl::Status status = dispatcher.give_up_status(); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(name, ": gave up after ", config.give_up_after,
                                                    " failures in a row, the last: ", status.message()));
  }
  report.timeline = recorder.TakeTimeline(clock->Now());
  return report;
}

absl::Status LoadServer(const LoadConfig& config, const PayloadPool& payloads, const std::atomic<bool>* interrupted,
                        Report* report) {
  absl::StatusOr<std::unique_ptr<TesseraTarget>> server =
      TesseraTarget::Connect(config.server, config.shapes, &payloads);
  if (!server.ok()) return server.status();
  absl::StatusOr<std::string> description = (*server)->DescribeServer();
  if (!description.ok()) {
    return absl::Status(description.status().code(),
                        absl::StrCat(config.server.address, ": ", description.status().message()));
  }
  report->server = *std::move(description);

  std::optional<AnswerSampler> sampler;
  if (config.verify > 0) sampler.emplace(server->get(), static_cast<size_t>(config.verify), config.seed);
  Target* const target = sampler.has_value() ? static_cast<Target*>(&*sampler) : server->get();
  absl::StatusOr<TargetReport> loaded = LoadTarget(config, "server", target, interrupted);
  if (!loaded.ok()) return loaded.status();
  report->targets.push_back(*std::move(loaded));
  if (sampler.has_value()) {
    report->check = CheckAnswers(sampler->TakeSample(), config.shapes, payloads, kRowsCheckedPerAnswer, config.seed);
  }
  return absl::OkStatus();
}

absl::Status LoadEcho(const LoadConfig& config, const PayloadPool& payloads, const std::atomic<bool>* interrupted,
                      Report* report) {
  EchoOptions options;
  options.address = config.echo_address;
  options.connections = config.server.connections;
  options.stream = config.server.transport != Transport::kUnary;
  options.timeout = config.server.timeout;
  std::unique_ptr<EchoServer> own_server;
  if (options.address.empty()) {
    absl::StatusOr<std::unique_ptr<EchoServer>> started = EchoServer::Start("127.0.0.1:0");
    if (!started.ok()) return started.status();
    own_server = *std::move(started);
    options.address = absl::StrCat("127.0.0.1:", own_server->port());
  }
  EchoTarget echo(options, config.shapes, &payloads);
  if (absl::Status status = echo.AwaitConnected(); !status.ok()) return status;
  absl::StatusOr<TargetReport> loaded = LoadTarget(config, "echo", &echo, interrupted);
  if (!loaded.ok()) return loaded.status();
  report->targets.push_back(*std::move(loaded));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Report> RunLoadTest(const LoadConfig& config, const std::atomic<bool>* interrupted) {
  Report report;
  report.started = absl::Now();
  report.load = DescribeLoad(config);
  report.warm_up = config.length.warm_up;
  if (config.mode == LoadMode::kRamp) report.slo_p99 = config.ramp.slo.p99;
  const PayloadPool payloads(config.shapes, config.payloads, config.seed);
  if (!config.server.address.empty()) {
    if (absl::Status status = LoadServer(config, payloads, interrupted, &report); !status.ok()) return status;
  }
  if (config.echo && !interrupted->load()) {
    if (absl::Status status = LoadEcho(config, payloads, interrupted, &report); !status.ok()) return status;
  }
  if (report.targets.empty()) return absl::CancelledError("interrupted before anything was measured");
  return report;
}

}  // namespace tessera::load
