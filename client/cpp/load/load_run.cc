#include "client/cpp/load/load_run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/load/answer_check.h"
#include "client/cpp/load/answer_sampler.h"
#include "client/cpp/load/dispatcher.h"
#include "client/cpp/load/echo_place.h"
#include "client/cpp/load/echo_target.h"
#include "client/cpp/load/progress.h"
#include "client/cpp/load/recorder.h"
#include "client/cpp/load/region_target.h"
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

void Offer(const LoadConfig& config, absl::Duration origin, Dispatcher* dispatcher, TargetReport* report) {
  switch (config.mode) {
    case LoadMode::kClosed:
      report->stats.AppendRound(RunClosedLoop(config.callers, config.length, dispatcher));
      break;
    case LoadMode::kPoisson:
    case LoadMode::kConstant: {
      const ArrivalProcess process =
          config.mode == LoadMode::kPoisson ? ArrivalProcess::kPoisson : ArrivalProcess::kConstant;
      report->stats.AppendRound(
          RunOpenLoop({process, config.rate, config.max_in_flight, config.seed}, config.length, dispatcher));
      break;
    }
    case LoadMode::kRamp:
      report->ramp = RunRamp(config.ramp, origin, dispatcher);
      if (!report->ramp->steps.empty()) {
        report->stats = report->ramp->steps[static_cast<size_t>(std::max(report->ramp->knee, 0))].stats;
      }
      break;
  }
}

// Offers the load of `config` once and adds what came of it to `report`. The status is that of a run that was given up.
absl::Status RunRound(const LoadConfig& config, Target* target, const std::atomic<bool>* interrupted,
                      TargetReport* report) {
  LoadClock* const clock = LoadClock::Real();
  // The same seed for each target: they see the same calls at the same times.
  Workload workload(config.shapes, config.seed);
  const absl::Duration origin = clock->Now();
  Recorder recorder(config.shapes, origin, TimelineInterval(config));
  Dispatcher dispatcher(&workload, target, clock, &recorder, config.give_up_after, interrupted);
  std::optional<ProgressLine> progress;
  if (config.progress) progress.emplace(report->name, &dispatcher);
  Offer(config, origin, &dispatcher, report);
  progress.reset();
  // Rounds follow one another, as if the other target's rounds took no time.
  std::vector<TimelinePoint>& timeline = report->timeline;
  const absl::Duration before =
      timeline.empty() ? absl::ZeroDuration() : timeline.back().begin + timeline.back().length;
  for (TimelinePoint& point : recorder.TakeTimeline(clock->Now())) {
    point.warm_up = config.mode != LoadMode::kRamp && point.begin < config.length.warm_up;
    point.begin += before;
    timeline.push_back(point);
  }
  const absl::Status status = dispatcher.give_up_status();
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(report->name, ": gave up after ", config.give_up_after,
                                                  " failures in a row, the last: ", status.message()));
}

// What an echo is loaded through.
struct Echo {
  EchoPlace place;
  std::unique_ptr<EchoTarget> target;
};

absl::StatusOr<Echo> ConnectEcho(const LoadConfig& config, const PayloadPool& payloads) {
  absl::StatusOr<EchoPlace> place = PlaceEcho(config);
  if (!place.ok()) return place.status();
  Echo echo;
  echo.place = *std::move(place);
  echo.target = std::make_unique<EchoTarget>(echo.place.options, config.shapes, &payloads);
  if (absl::Status status = echo.target->AwaitConnected(); !status.ok()) return status;
  return echo;
}

absl::StatusOr<std::unique_ptr<TesseraTarget>> ConnectServer(const LoadConfig& config, const PayloadPool& payloads,
                                                             std::string* description) {
  absl::StatusOr<std::unique_ptr<TesseraTarget>> server =
      TesseraTarget::Connect(config.server, config.shapes, &payloads);
  if (!server.ok()) return server.status();
  absl::StatusOr<std::string> described = (*server)->DescribeServer();
  if (!described.ok()) {
    return absl::Status(described.status().code(),
                        absl::StrCat(config.server.address, ": ", described.status().message()));
  }
  *description = *std::move(described);
  return server;
}

}  // namespace

absl::StatusOr<Report> RunLoadTest(const LoadConfig& config, const std::atomic<bool>* interrupted) {
  Report report;
  report.started = absl::Now();
  report.load = DescribeLoad(config);
  if (config.mode == LoadMode::kRamp) report.slo_p99 = config.ramp.slo.p99;
  const PayloadPool payloads(config.shapes, config.payloads, config.seed);

  std::unique_ptr<TesseraTarget> server;
  std::unique_ptr<RegionTarget> regions;
  std::optional<AnswerSampler> sampler;
  Echo echo;
  std::vector<Target*> targets;
  if (!config.server.address.empty()) {
    absl::StatusOr<std::unique_ptr<TesseraTarget>> connected = ConnectServer(config, payloads, &report.server);
    if (!connected.ok()) return connected.status();
    server = *std::move(connected);
    Target* target = server.get();
    if (config.regions != RegionKind::kNone) {
      const RegionOptions options = {.kind = config.regions,
                                     .payloads = config.payloads,
                                     .places = config.callers,
                                     .hand_on_answers = config.verify > 0};
      absl::StatusOr<std::unique_ptr<RegionTarget>> opened =
          RegionTarget::Connect(config.server, options, config.shapes, payloads);
      if (!opened.ok()) return opened.status();
      regions = *std::move(opened);
      target = regions.get();
    }
    if (config.verify > 0) target = &sampler.emplace(target, static_cast<size_t>(config.verify), config.seed);
    targets.push_back(target);
    report.targets.emplace_back().name = "server";
  }
  if (config.echo) {
    absl::StatusOr<Echo> connected = ConnectEcho(config, payloads);
    if (!connected.ok()) return connected.status();
    echo = *std::move(connected);
    targets.push_back(echo.target.get());
    report.targets.emplace_back().name = "echo";
  }

  for (int round = 0; round < config.rounds; ++round) {
    const LoadConfig part = RoundOf(config, round);
    for (size_t i = 0; i < targets.size() && !interrupted->load() && report.ended.ok(); ++i) {
      report.ended = RunRound(part, targets[i], interrupted, &report.targets[i]);
    }
  }
  if (!report.ended.ok() && report.targets[0].stats.total.ok == 0) return report.ended;
  // An interrupt can leave a target without any round.
  while (!report.targets.empty() && report.targets.back().stats.shapes.empty()) report.targets.pop_back();
  if (report.targets.empty()) return absl::CancelledError("interrupted before anything was measured");
  if (sampler.has_value()) {
    report.check = CheckAnswers(sampler->TakeSample(), config.shapes, payloads, kRowsCheckedPerAnswer, config.seed);
  }
  return report;
}

}  // namespace tessera::load
