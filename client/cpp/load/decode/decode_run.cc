#include "client/cpp/load/decode/decode_run.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/load/decode/decode_round.h"
#include "client/cpp/load/decode/echo_steps.h"
#include "client/cpp/load/decode/resident_target.h"
#include "client/cpp/load/echo_place.h"

namespace tessera::load {
namespace {

constexpr int kRowsCheckedPerAnswer = 16;

std::string Describe(const LoadConfig& config, const DecodeShape& shape) {
  std::string text = absl::StrCat("decode, ", DescribeLoad(config), ": ", shape.layers, " layers, ", shape.q_heads,
                                  " heads, ", shape.tokens, shape.tokens == 1 ? " token" : " tokens", " a step");
  if (shape.group > 1) absl::StrAppend(&text, ", ", shape.group, " sequences in a call");
  absl::StrAppend(&text, ", over ", config.server.connections,
                  config.server.transport == Transport::kUnary ? " connections" : " streams");
  return text;
}

}  // namespace

absl::StatusOr<DecodeReport> RunDecode(const LoadConfig& config, const std::atomic<bool>* interrupted) {
  DecodeReport report;
  report.started = absl::Now();
  report.shape = *config.decode;
  absl::StatusOr<std::unique_ptr<ResidentTarget>> server =
      ResidentTarget::Connect(config.server, &report.shape, config.verify, config.seed);
  if (!server.ok()) {
    return absl::Status(server.status().code(), absl::StrCat(config.server.address, ": ", server.status().message()));
  }
  report.server = (*server)->description();
  report.load = Describe(config, report.shape);
  CallShape step = (*server)->token();  // of one sequence in one layer
  step.q_length = step.kv_length = report.shape.tokens;
  report.step_up_bytes = static_cast<double>(step.request_bytes());
  report.step_down_bytes = static_cast<double>(step.response_bytes());

  std::optional<EchoPlace> place;
  std::unique_ptr<EchoSteps> echo;
  std::vector<DecodeTarget*> targets = {server->get()};
  report.targets.push_back({"server", {}});
  if (config.echo) {
    absl::StatusOr<EchoPlace> placed = PlaceEcho(config);
    if (!placed.ok()) return placed.status();
    place = *std::move(placed);
    step.sequences = report.shape.group;
    echo = std::make_unique<EchoSteps>(place->options, step, config.seed);
    if (absl::Status status = echo->AwaitConnected(); !status.ok()) return status;
    targets.push_back(echo.get());
    report.targets.push_back({"echo", {}});
  }

  for (int round = 0; round < config.rounds; ++round) {
    const LoadConfig part = RoundOf(config, round);
    for (size_t i = 0; i < targets.size() && !interrupted->load() && report.ended.ok(); ++i) {
      DecodeTargetReport& target = report.targets[i];
      DecodeStats stats;
      report.ended = DecodeRound(part, report.shape, target.name, targets[i], interrupted).Run(&stats);
      target.stats.AppendRound(stats);
    }
  }
  if (!report.ended.ok() && report.targets[0].stats.tokens == 0) return report.ended;
  report.check = (*server)->Check(kRowsCheckedPerAnswer, config.seed);
  return report;
}

}  // namespace tessera::load
