#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/load/quantity_format.h"
#include "client/cpp/load/report.h"

namespace tessera::load {
namespace {

// Wide enough for the longest default name of a shape in common use.
constexpr int kNameWidth = 30;

void AppendGroupRow(const std::string& name, const GroupStats& group, std::string* out) {
  absl::StrAppendFormat(out, "%-*.*s %10.1f %9d %7d %7d", kNameWidth, kNameWidth, name, group.requests_per_second,
                        group.ok, group.failed, group.dropped);
  for (const double percentile : {50.0, 90.0, 95.0, 99.0, 99.9, 100.0}) {
    absl::StrAppendFormat(out, " %8s", FormatLatency(group.latency.Percentile(percentile)));
  }
  absl::StrAppendFormat(out, " %10s %10s %8s\n", FormatByteRate(group.upload_bytes_per_second),
                        FormatByteRate(group.download_bytes_per_second), FormatTeraflops(group.flops_per_second));
}

void AppendGroups(const Report& report, std::string* out) {
  absl::StrAppendFormat(out, "%-*s %10s %9s %7s %7s", kNameWidth, "", "requests/s", "ok", "failed", "dropped");
  for (const char* column : {"p50", "p90", "p95", "p99", "p99.9", "max"}) absl::StrAppendFormat(out, " %8s", column);
  absl::StrAppendFormat(out, " %10s %10s %8s\n", "up", "down", "TFLOP/s");
  for (const TargetReport& target : report.targets) {
    AppendGroupRow(target.name, target.stats.total, out);
    if (target.stats.shapes.size() < 2) continue;
    for (const GroupStats& group : target.stats.shapes) AppendGroupRow("  " + group.name, group, out);
  }
  if (const auto ratio = CompareWithEcho(report); ratio.has_value()) {
    absl::StrAppendFormat(out, "%-*s %9.3fx %44.2fx %26.2fx\n", kNameWidth, "server / echo", ratio->requests_per_second,
                          ratio->p50, ratio->p99);
  }
}

void AppendStages(const GroupStats& total, std::string* out) {
  if (total.run.count() == 0) return;
  absl::StrAppendFormat(out, "\n%-*s %8s %8s %8s %8s\n", kNameWidth, "where a request's time goes", "mean", "p50",
                        "p99", "max");
  const auto row = [out](const char* name, const Histogram& histogram) {
    absl::StrAppendFormat(out, "%-*s %8s %8s %8s %8s\n", kNameWidth, name,
                          FormatLatency(static_cast<int64_t>(histogram.mean())),
                          FormatLatency(histogram.Percentile(50)), FormatLatency(histogram.Percentile(99)),
                          FormatLatency(histogram.max()));
  };
  row("  waiting to be sent", total.send_lag);
  row("  server: receive", total.receive);
  row("  server: queue", total.queue);
  row("  server: run", total.run);
  row("  elsewhere (client, wire)", total.elsewhere);
  absl::StrAppendFormat(out, "%-*s %8.1f %8d %8d %8d\n", kNameWidth, "requests in the batch",
                        total.batch_requests.mean(), total.batch_requests.Percentile(50),
                        total.batch_requests.Percentile(99), total.batch_requests.max());
}

void AppendErrors(const TargetReport& target, std::string* out) {
  const GroupStats& total = target.stats.total;
  if (total.failed + total.dropped == 0) return;
  absl::StrAppendFormat(out, "\nerrors of %s: %.3f%% of %d due\n", target.name, 100 * total.error_fraction(),
                        total.due());
  for (const auto& [code, count] : total.errors) {
    absl::StrAppendFormat(out, "  %-*s %10d\n", kNameWidth - 2, absl::StatusCodeToString(code), count);
  }
  if (total.dropped > 0) {
    absl::StrAppendFormat(out, "  %-*s %10d\n", kNameWidth - 2, "dropped by the client", total.dropped);
  }
}

void AppendRamp(const TargetReport& target, std::string* out) {
  const RampResult& ramp = *target.ramp;
  absl::StrAppendFormat(out, "ramp of %s\n%12s %12s %9s %9s %9s  %s\n", target.name, "offered/s", "answered/s", "p50",
                        "p99", "errors", "SLO");
  for (size_t i = 0; i < ramp.steps.size(); ++i) {
    const RampStep& step = ramp.steps[i];
    const GroupStats& total = step.stats.total;
    absl::StrAppendFormat(out, "%12.1f %12.1f %9s %9s %8.2f%%  %s%s\n", step.offered, total.requests_per_second,
                          FormatLatency(total.latency.Percentile(50)), FormatLatency(total.latency.Percentile(99)),
                          100 * total.error_fraction(), step.met_slo ? "met" : step.broken,
                          static_cast<int>(i) == ramp.knee ? "  <- knee" : "");
  }
  if (ramp.knee < 0) {
    absl::StrAppend(out, "no knee: the first rate broke the SLO already; figures below are of that step\n\n");
  } else {
    absl::StrAppendFormat(out, "knee: %.1f requests/s%s; figures below are of that step\n\n",
                          ramp.steps[static_cast<size_t>(ramp.knee)].offered,
                          ramp.bracketed ? "" : " or more (no rate broke the SLO)");
  }
}

}  // namespace

std::string RenderText(const Report& report) {
  std::string out = absl::StrCat("\n", report.load, "\n");
  if (!report.server.empty()) absl::StrAppend(&out, report.server, "\n");
  absl::StrAppend(&out, "\n");
  for (const TargetReport& target : report.targets) {
    if (target.ramp.has_value()) AppendRamp(target, &out);
  }
  AppendGroups(report, &out);
  AppendStages(report.targets[0].stats.total, &out);
  for (const TargetReport& target : report.targets) AppendErrors(target, &out);
  if (report.check.has_value()) {
    const CheckResult& check = *report.check;
    absl::StrAppendFormat(&out, "\nanswers checked in double precision: %d (%d rows), wrong rows: %d, ", check.answers,
                          check.rows, check.wrong_rows);
    absl::StrAppendFormat(&out, "worst error %.3g of what is allowed\n", check.worst);
    if (check.wrong_rows > 0) absl::StrAppend(&out, "  first: ", check.first_wrong, "\n");
  }
  return out;
}

}  // namespace tessera::load
