#include "client/cpp/load/report.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace tessera::load {
namespace {

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

// Three significant digits without an exponent.
std::string ThreeDigits(double value) {
  const int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f", digits, value);
}

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

std::string FormatLatency(int64_t nanoseconds) {
  const auto value = static_cast<double>(nanoseconds);
  if (value < 999.5e3) return ThreeDigits(value / 1e3) + " us";
  if (value < 999.5e6) return ThreeDigits(value / 1e6) + " ms";
  return ThreeDigits(value / 1e9) + " s";
}

std::string FormatByteRate(double bytes_per_second) {
  if (bytes_per_second < 999.5e3) return ThreeDigits(bytes_per_second / 1e3) + " kB/s";
  if (bytes_per_second < 999.5e6) return ThreeDigits(bytes_per_second / 1e6) + " MB/s";
  return ThreeDigits(bytes_per_second / 1e9) + " GB/s";
}

}  // namespace tessera::load
