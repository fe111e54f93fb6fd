#include "client/cpp/load/decode/decode_report.h"

namespace tessera::load {

std::optional<DecodeEchoRatio> CompareWithEcho(const DecodeReport& report) {
  if (report.targets.size() < 2) return std::nullopt;
  const DecodeStats& server = report.targets[0].stats;
  const DecodeStats& echo = report.targets[1].stats;
  if (echo.tokens == 0 || server.tokens == 0) return std::nullopt;
  const auto p50 = [](const Histogram& histogram) { return static_cast<double>(histogram.Percentile(50)); };
  DecodeEchoRatio ratio;
  ratio.tokens_per_second = server.PerSecond(server.tokens) / echo.PerSecond(echo.tokens);
  ratio.step_p50 = p50(server.step) / p50(echo.step);
  ratio.token_time_p50 = p50(server.token_time) / p50(echo.token_time);
  ratio.step_p50_over_echo_and_run = p50(server.step) / (p50(echo.step) + p50(server.run));
  return ratio;
}

}  // namespace tessera::load
