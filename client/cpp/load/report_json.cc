#include <string>

#include "client/cpp/load/json_fields.h"
#include "client/cpp/load/report.h"
#include "nlohmann/json.hpp"

namespace tessera::load {
namespace {

Json Group(const GroupStats& group) {
  Json errors = Json::object();
  for (const auto& [code, count] : group.errors) errors[absl::StatusCodeToString(code)] = count;
  Json json = {{"name", group.name},
               {"ok", group.ok},
               {"failed", group.failed},
               {"dropped", group.dropped},
               {"errors", errors},
               {"requests_per_second", group.requests_per_second},
               {"upload_bytes_per_second", group.upload_bytes_per_second},
               {"download_bytes_per_second", group.download_bytes_per_second},
               {"flops_per_second", group.flops_per_second},
               {"latency_us", Distribution(group.latency, 1000)},
               {"send_lag_us", Distribution(group.send_lag, 1000)}};
  if (group.run.count() > 0) {
    json["server"] = {{"receive_us", Distribution(group.receive, 1000)},
                      {"queue_us", Distribution(group.queue, 1000)},
                      {"run_us", Distribution(group.run, 1000)},
                      {"batch_requests", Distribution(group.batch_requests, 1)}};
    json["elsewhere_us"] = Distribution(group.elsewhere, 1000);
  }
  return json;
}

Json Stats(const RunStats& stats) {
  Json shapes = Json::array();
  for (const GroupStats& group : stats.shapes) shapes.push_back(Group(group));
  return {{"window_seconds", absl::ToDoubleSeconds(stats.window)}, {"total", Group(stats.total)}, {"shapes", shapes}};
}

Json Timeline(const std::vector<TimelinePoint>& timeline) {
  Json json = Json::array();
  for (const TimelinePoint& point : timeline) {
    json.push_back({{"begin_seconds", absl::ToDoubleSeconds(point.begin)},
                    {"length_seconds", absl::ToDoubleSeconds(point.length)},
                    {"ok", point.ok},
                    {"failed", point.failed},
                    {"dropped", point.dropped},
                    {"p50_us", static_cast<double>(point.p50_ns) / 1e3},
                    {"p99_us", static_cast<double>(point.p99_ns) / 1e3},
                    {"max_us", static_cast<double>(point.max_ns) / 1e3},
                    {"warm_up", point.warm_up}});
  }
  return json;
}

Json Ramp(const RampResult& ramp) {
  Json steps = Json::array();
  for (const RampStep& step : ramp.steps) {
    Json json = {{"offered_per_second", step.offered},
                 {"begin_seconds", absl::ToDoubleSeconds(step.begin)},
                 {"met_slo", step.met_slo},
                 {"broken", step.broken}};
    json.update(Stats(step.stats));
    steps.push_back(std::move(json));
  }
  const bool found = ramp.knee >= 0;
  return {{"knee_per_second", found ? Json(ramp.steps[static_cast<size_t>(ramp.knee)].offered) : Json()},
          {"bracketed", ramp.bracketed},
          {"steps", steps}};
}

}  // namespace

std::string RenderJson(const Report& report) {
  Json json = Heading(report.started, report.load, report.server, report.configuration);
  json["targets"] = Json::array();
  for (const TargetReport& target : report.targets) {
    Json entry = {{"name", target.name}};
    entry.update(Stats(target.stats));
    entry["timeline"] = Timeline(target.timeline);
    if (target.ramp.has_value()) entry["ramp"] = Ramp(*target.ramp);
    json["targets"].push_back(std::move(entry));
  }
  if (const auto ratio = CompareWithEcho(report); ratio.has_value()) {
    json["server_over_echo"] = {
        {"requests_per_second", ratio->requests_per_second}, {"p50", ratio->p50}, {"p99", ratio->p99}};
  }
  if (report.check.has_value()) json["check"] = Check(*report.check);
  if (!report.ended.ok()) json["ended"] = report.ended.ToString();
  return Dump(json);
}

}  // namespace tessera::load
