#include "client/cpp/load/json_fields.h"

namespace tessera::load {
namespace {

constexpr int kSchemaVersion = 1;

}  // namespace

Json Heading(absl::Time started, const std::string& load, const std::string& server,
             const std::vector<std::pair<std::string, std::string>>& configuration) {
  Json json = {{"schema", kSchemaVersion},
               {"started_at", absl::FormatTime(absl::RFC3339_sec, started, absl::UTCTimeZone())},
               {"load", load},
               {"server", server},
               {"configuration", Json::object()}};
  for (const auto& [flag, value] : configuration) json["configuration"][flag] = value;
  return json;
}

Json Distribution(const Histogram& histogram, double unit) {
  const auto at = [&](double percentile) { return static_cast<double>(histogram.Percentile(percentile)) / unit; };
  return {{"count", histogram.count()},
          {"min", static_cast<double>(histogram.min()) / unit},
          {"mean", histogram.mean() / unit},
          {"p50", at(50)},
          {"p90", at(90)},
          {"p95", at(95)},
          {"p99", at(99)},
          {"p99_9", at(99.9)},
          {"max", static_cast<double>(histogram.max()) / unit}};
}

Json Check(const CheckResult& check) {
  return {{"answers", check.answers},
          {"rows", check.rows},
          {"wrong_rows", check.wrong_rows},
          {"worst", check.worst},
          {"first_wrong", check.first_wrong}};
}

std::string Dump(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace tessera::load
