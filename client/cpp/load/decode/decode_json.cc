#include <string>

#include "client/cpp/load/decode/decode_report.h"
#include "client/cpp/load/json_fields.h"
#include "nlohmann/json.hpp"

namespace tessera::load {
namespace {

Json Measured(const DecodeReport& report, const DecodeTargetReport& target) {
  const DecodeStats& stats = target.stats;
  const double layers = stats.PerSecond(stats.layer_steps);
  Json errors = Json::object();
  for (const auto& [code, count] : stats.errors) errors[absl::StatusCodeToString(code)] = count;
  Json json = {{"name", target.name},
               {"window_seconds", absl::ToDoubleSeconds(stats.window)},
               {"tokens", stats.tokens},
               {"tokens_per_second", stats.PerSecond(stats.tokens)},
               {"layers_per_second", layers},
               {"calls_per_second", stats.PerSecond(stats.ok_steps)},
               {"upload_bytes_per_second", layers * report.step_up_bytes},
               {"download_bytes_per_second", layers * report.step_down_bytes},
               {"prefill_tokens", stats.prefill_tokens},
               {"prefill_tokens_per_second", stats.PerSecond(stats.prefill_tokens)},
               {"sequences", stats.sequences},
               {"failed_sequences", stats.failed_sequences},
               {"dropped_sequences", stats.dropped_sequences},
               {"steps", stats.steps()},
               {"refused_steps", stats.refused_steps},
               {"failed_steps", stats.failed_steps},
               {"failed_fraction", stats.failed_fraction()},
               {"errors", errors},
               {"token_us", Distribution(stats.token_time, 1000)},
               {"inter_token_us", Distribution(stats.inter_token, 1000)},
               {"first_token_us", Distribution(stats.first_token, 1000)},
               {"prefill_us", Distribution(stats.prefill, 1000)},
               {"step_us", Distribution(stats.step, 1000)}};
  if (stats.run.count() > 0) {
    json["server"] = {{"receive_us", Distribution(stats.receive, 1000)},
                      {"queue_us", Distribution(stats.queue, 1000)},
                      {"run_us", Distribution(stats.run, 1000)},
                      {"batch_requests", Distribution(stats.batch_requests, 1)}};
    json["elsewhere_us"] = Distribution(stats.elsewhere, 1000);
  }
  return json;
}

}  // namespace

std::string RenderDecodeJson(const DecodeReport& report) {
  Json json = Heading(report.started, report.load, report.server, report.configuration);
  json["decode"] = {{"profile", report.shape.profile},
                    {"layers", report.shape.layers},
                    {"heads", report.shape.q_heads},
                    {"tokens", report.shape.tokens},
                    {"group", report.shape.group},
                    {"step_up_bytes", report.step_up_bytes},
                    {"step_down_bytes", report.step_down_bytes}};
  json["targets"] = Json::array();
  for (const DecodeTargetReport& target : report.targets) json["targets"].push_back(Measured(report, target));
  if (const auto ratio = CompareWithEcho(report); ratio.has_value()) {
    json["server_over_echo"] = {{"tokens_per_second", ratio->tokens_per_second},
                                {"token_p50", ratio->token_time_p50},
                                {"step_p50", ratio->step_p50},
                                {"step_p50_over_echo_and_run", ratio->step_p50_over_echo_and_run}};
  }
  if (report.check.has_value()) json["check"] = Check(*report.check);
  if (!report.ended.ok()) json["ended"] = report.ended.ToString();
  return Dump(json);
}

}  // namespace tessera::load
