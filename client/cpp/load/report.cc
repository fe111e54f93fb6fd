#include "client/cpp/load/report.h"

namespace tessera::load {
namespace {

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

}  // namespace

std::optional<EchoRatio> CompareWithEcho(const Report& report) {
  if (report.targets.size() < 2) return std::nullopt;
  const GroupStats& server = report.targets[0].stats.total;
  const GroupStats& echo = report.targets[1].stats.total;
  const auto percentile_ratio = [&](double p) {
    return Ratio(static_cast<double>(server.latency.Percentile(p)), static_cast<double>(echo.latency.Percentile(p)));
  };
  return EchoRatio{Ratio(server.requests_per_second, echo.requests_per_second), percentile_ratio(50),
                   percentile_ratio(99)};
}

}  // namespace tessera::load
