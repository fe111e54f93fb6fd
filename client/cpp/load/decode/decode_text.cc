#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/load/decode/decode_report.h"
#include "client/cpp/load/quantity_format.h"

namespace tessera::load {
namespace {

constexpr int kNameWidth = 34;

void AppendTimes(const char* name, const Histogram& histogram, std::string* out) {
  if (histogram.count() == 0) return;
  absl::StrAppendFormat(out, "  %-*s", kNameWidth - 2, name);
  absl::StrAppendFormat(out, " %9s", FormatLatency(static_cast<int64_t>(histogram.mean())));
  for (const double percentile : {50.0, 90.0, 99.0, 100.0}) {
    absl::StrAppendFormat(out, " %9s", FormatLatency(histogram.Percentile(percentile)));
  }
  absl::StrAppendFormat(out, " %10d\n", histogram.count());
}

void AppendTarget(const DecodeReport& report, const DecodeTargetReport& target, std::string* out) {
  const DecodeStats& stats = target.stats;
  const double layers = stats.PerSecond(stats.layer_steps);
  absl::StrAppendFormat(out, "%s: %.1f tokens/s, %.1f layers/s of a sequence, %.1f calls/s, up %s, down %s\n",
                        target.name, stats.PerSecond(stats.tokens), layers, stats.PerSecond(stats.ok_steps),
                        FormatByteRate(layers * report.step_up_bytes), FormatByteRate(layers * report.step_down_bytes));
  absl::StrAppendFormat(out,
                        "  sequences: %d to their end, %d failed, %d dropped; prefilled %d tokens (%.1f/s)\n"
                        "  steps: %d, refused for a while %d, failed %d (%.4f%%)\n",
                        stats.sequences, stats.failed_sequences, stats.dropped_sequences, stats.prefill_tokens,
                        stats.PerSecond(stats.prefill_tokens), stats.steps(), stats.refused_steps, stats.failed_steps,
                        100 * stats.failed_fraction());
  for (const auto& [code, count] : stats.errors) {
    absl::StrAppendFormat(out, "    %-*s %10d\n", kNameWidth - 4, absl::StatusCodeToString(code), count);
  }
  absl::StrAppendFormat(out, "  %-*s %9s %9s %9s %9s %9s %10s\n", kNameWidth - 2, "", "mean", "p50", "p90", "p99",
                        "max", "count");
  AppendTimes("token, all layers", stats.token_time, out);
  AppendTimes("from token to token", stats.inter_token, out);
  AppendTimes("to the first token", stats.first_token, out);
  AppendTimes("prefill", stats.prefill, out);
  AppendTimes("step, one layer", stats.step, out);
  AppendTimes("  server: receive", stats.receive, out);
  AppendTimes("  server: queue", stats.queue, out);
  AppendTimes("  server: run", stats.run, out);
  AppendTimes("  elsewhere (client, wire)", stats.elsewhere, out);
  if (stats.batch_requests.count() > 0) {
    absl::StrAppendFormat(out, "  %-*s %9.1f %9d %9d %9d %9d\n", kNameWidth - 2, "calls in the batch",
                          stats.batch_requests.mean(), stats.batch_requests.Percentile(50),
                          stats.batch_requests.Percentile(90), stats.batch_requests.Percentile(99),
                          stats.batch_requests.max());
  }
  absl::StrAppend(out, "\n");
}

}  // namespace

std::string RenderDecodeText(const DecodeReport& report) {
  std::string out = absl::StrCat("\n", report.load, "\n", report.server, "\n\n");
  for (const DecodeTargetReport& target : report.targets) AppendTarget(report, target, &out);
  if (const auto ratio = CompareWithEcho(report); ratio.has_value()) {
    absl::StrAppendFormat(&out,
                          "server / echo: tokens/s %.3fx, token p50 %.2fx, step p50 %.2fx; step p50 / (echo's + run's) "
                          "%.2fx\n",
                          ratio->tokens_per_second, ratio->token_time_p50, ratio->step_p50,
                          ratio->step_p50_over_echo_and_run);
  }
  if (report.check.has_value()) {
    const CheckResult& check = *report.check;
    absl::StrAppendFormat(&out,
                          "answers checked in double precision: %d (%d rows), wrong rows: %d, worst error %.3g of "
                          "what is allowed\n",
                          check.answers, check.rows, check.wrong_rows, check.worst);
    if (check.wrong_rows > 0) absl::StrAppend(&out, "  first: ", check.first_wrong, "\n");
  }
  return out;
}

}  // namespace tessera::load
