#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/load/quantity_format.h"
#include "client/cpp/load/report.h"
#include "client/cpp/load/report_plots.h"
#include "client/cpp/load/report_style.h"
#include "client/cpp/load/svg_plot.h"

namespace tessera::load {
namespace {

std::string Cell(const std::string& text) { return absl::StrCat("<td>", EscapeXml(text), "</td>"); }
std::string Cell(int64_t number) { return absl::StrCat("<td>", number, "</td>"); }

void AppendHeadings(const std::vector<const char*>& headings, std::string* out) {
  absl::StrAppend(out, "<tr>");
  for (const char* heading : headings) absl::StrAppend(out, "<th>", heading, "</th>");
  absl::StrAppend(out, "</tr>\n");
}

void AppendPlot(const Plot& plot, std::string* out) {
  absl::StrAppend(out, "<section class=\"card\"><h2>", EscapeXml(plot.title), "</h2>\n", RenderLegend(plot),
                  RenderSvg(plot), "</section>\n");
}

void AppendTile(const std::string& value, const std::string& name, const std::string& note, std::string* out) {
  absl::StrAppend(out, "<div class=\"tile\"><span>", name, "</span><b>", EscapeXml(value), "</b><i>", EscapeXml(note),
                  "</i></div>\n");
}

void AppendTiles(const Report& report, std::string* out) {
  const GroupStats& total = report.targets[0].stats.total;
  const auto ratio = CompareWithEcho(report);
  const auto of_echo = [&](double value) { return ratio ? absl::StrFormat("%.2f x echo", value) : std::string(); };
  absl::StrAppend(out, "<div class=\"tiles\">\n");
  AppendTile(absl::StrFormat("%.5g", total.requests_per_second), "requests/s",
             of_echo(ratio ? ratio->requests_per_second : 0), out);
  AppendTile(FormatLatency(total.latency.Percentile(50)), "p50", of_echo(ratio ? ratio->p50 : 0), out);
  AppendTile(FormatLatency(total.latency.Percentile(99)), "p99", of_echo(ratio ? ratio->p99 : 0), out);
  AppendTile(FormatByteRate(total.upload_bytes_per_second), "tensors up",
             absl::StrCat(FormatByteRate(total.download_bytes_per_second), " down"), out);
  if (total.flops_per_second > 0) {
    AppendTile(absl::StrFormat("%.3g", total.flops_per_second / 1e9), "useful GFLOP/s", "", out);
  }
  if (total.batch_requests.count() > 0) {
    AppendTile(absl::StrFormat("%.1f", total.batch_requests.mean()), "mean batch",
               absl::StrCat("at most ", total.batch_requests.max()), out);
  }
  AppendTile(absl::StrFormat("%.3g %%", 100 * total.error_fraction()), "errors",
             absl::StrCat(total.failed, " failed, ", total.dropped, " dropped"), out);
  absl::StrAppend(out, "</div>\n");
}

void AppendGroupRow(const GroupStats& group, const std::string& name, bool head, std::string* out) {
  absl::StrAppend(out, head ? "<tr class=\"head\">" : "<tr>", Cell(name),
                  Cell(absl::StrFormat("%.1f", group.requests_per_second)), Cell(group.ok), Cell(group.failed),
                  Cell(group.dropped));
  for (const double percentile : {50.0, 90.0, 95.0, 99.0, 99.9, 100.0}) {
    absl::StrAppend(out, Cell(FormatLatency(group.latency.Percentile(percentile))));
  }
  absl::StrAppend(out, Cell(FormatByteRate(group.upload_bytes_per_second)),
                  Cell(FormatByteRate(group.download_bytes_per_second)), Cell(FormatTeraflops(group.flops_per_second)),
                  "</tr>\n");
}

void AppendGroups(const Report& report, std::string* out) {
  absl::StrAppend(out, "<section class=\"card\"><h2>Latency and throughput</h2><table>\n");
  AppendHeadings({"", "requests/s", "ok", "failed", "dropped", "p50", "p90", "p95", "p99", "p99.9", "max", "up", "down",
                  "TFLOP/s"},
                 out);
  for (const TargetReport& target : report.targets) {
    AppendGroupRow(target.stats.total, target.name, true, out);
    if (target.stats.shapes.size() < 2) continue;
    for (const GroupStats& group : target.stats.shapes) AppendGroupRow(group, group.name, false, out);
  }
  absl::StrAppend(out, "</table></section>\n");
}

void AppendStages(const GroupStats& total, std::string* out) {
  if (total.run.count() == 0) return;
  struct Stage {
    const char* name;
    int color;
    const Histogram& histogram;
  };
  const Stage stages[] = {{"waiting to be sent", 2, total.send_lag},
                          {"server: receive", 4, total.receive},
                          {"server: queue", 1, total.queue},
                          {"server: run", 0, total.run},
                          {"elsewhere (client, wire)", 5, total.elsewhere}};
  absl::StrAppend(out, "<section class=\"card\"><h2>Where a request's time goes (mean)</h2>\n<div class=\"stages\">");
  for (const Stage& stage : stages) {
    absl::StrAppendFormat(out, "<div class=\"c%d\" style=\"flex-grow:%.0f\" title=\"%s: %s\"></div>", stage.color,
                          stage.histogram.mean(), stage.name,
                          FormatLatency(static_cast<int64_t>(stage.histogram.mean())));
  }
  absl::StrAppend(out, "</div>\n<table>");
  AppendHeadings({"", "mean", "p50", "p99", "max"}, out);
  for (const Stage& stage : stages) {
    absl::StrAppendFormat(out, "<tr><td><span class=\"key c%d\"></span>%s</td>", stage.color, stage.name);
    absl::StrAppend(out, Cell(FormatLatency(static_cast<int64_t>(stage.histogram.mean()))),
                    Cell(FormatLatency(stage.histogram.Percentile(50))),
                    Cell(FormatLatency(stage.histogram.Percentile(99))), Cell(FormatLatency(stage.histogram.max())),
                    "</tr>\n");
  }
  absl::StrAppend(out, "<tr>", Cell("requests in the batch"),
                  Cell(absl::StrFormat("%.1f", total.batch_requests.mean())), Cell(total.batch_requests.Percentile(50)),
                  Cell(total.batch_requests.Percentile(99)), Cell(total.batch_requests.max()),
                  "</tr></table></section>\n");
}

void AppendErrors(const Report& report, std::string* out) {
  absl::StrAppend(out, "<section class=\"card\"><h2>Errors</h2><table>\n");
  AppendHeadings({"", "code", "requests", "of those due"}, out);
  bool any = false;
  for (const TargetReport& target : report.targets) {
    const GroupStats& total = target.stats.total;
    const auto row = [&](const std::string& what, int64_t count) {
      const double share = 100 * static_cast<double>(count) / static_cast<double>(total.due());
      absl::StrAppend(out, "<tr>", Cell(target.name), Cell(what), Cell(count), Cell(absl::StrFormat("%.3f %%", share)),
                      "</tr>\n");
      any = true;
    };
    for (const auto& [code, count] : total.errors) row(absl::StatusCodeToString(code), count);
    if (total.dropped > 0) row("dropped by the client", total.dropped);
  }
  if (!any) absl::StrAppend(out, "<tr><td class=\"good\" colspan=\"4\">none</td></tr>\n");
  if (report.check.has_value()) {
    const CheckResult& check = *report.check;
    absl::StrAppendFormat(out,
                          "<tr><td>answers checked</td><td class=\"%s\">%d wrong of %d rows</td><td>%d</td><td>worst "
                          "error %.2g of allowed</td></tr>\n",
                          check.wrong_rows > 0 ? "bad" : "good", check.wrong_rows, check.rows, check.answers,
                          check.worst);
  }
  absl::StrAppend(out, "</table></section>\n");
}

void AppendRamp(const Report& report, const TargetReport& target, std::string* out) {
  absl::StrAppend(out, "<div class=\"grid\">\n");
  AppendPlot(RampThroughputPlot(target), out);
  AppendPlot(RampLatencyPlot(target, report), out);
  absl::StrAppend(out, "</div>\n<section class=\"card\"><h2>Ramp of ", EscapeXml(target.name), "</h2><table>\n");
  AppendHeadings({"offered/s", "answered/s", "p50", "p99", "errors", "SLO"}, out);
  for (size_t i = 0; i < target.ramp->steps.size(); ++i) {
    const RampStep& step = target.ramp->steps[i];
    const GroupStats& total = step.stats.total;
    const bool knee = static_cast<int>(i) == target.ramp->knee;
    absl::StrAppend(out, knee ? "<tr class=\"knee\">" : "<tr>", Cell(absl::StrFormat("%.1f", step.offered)),
                    Cell(absl::StrFormat("%.1f", total.requests_per_second)),
                    Cell(FormatLatency(total.latency.Percentile(50))),
                    Cell(FormatLatency(total.latency.Percentile(99))),
                    Cell(absl::StrFormat("%.2f %%", 100 * total.error_fraction())));
    absl::StrAppendFormat(out, "<td class=\"%s\">%s%s</td></tr>\n", step.met_slo ? "good" : "bad",
                          step.met_slo ? "met" : EscapeXml(step.broken), knee ? " (knee)" : "");
  }
  absl::StrAppend(out, "</table></section>\n");
}

void AppendConfiguration(const Report& report, std::string* out) {
  absl::StrAppend(out, "<section class=\"card\"><h2>Configuration</h2><table>\n");
  for (const auto& [flag, value] : report.configuration) {
    absl::StrAppend(out, "<tr>", Cell(flag), "<td class=\"wrap\">", EscapeXml(value), "</td></tr>\n");
  }
  absl::StrAppend(out, "</table></section>\n");
}

}  // namespace

std::string RenderHtml(const Report& report) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Tessera load test</title>\n<style>";
  absl::StrAppend(&out, kReportStyle, "</style></head>\n<body><main>\n<h1>Tessera load test</h1>\n<p class=\"sub\">",
                  EscapeXml(report.load), "<br>");
  if (!report.server.empty()) absl::StrAppend(&out, EscapeXml(report.server), "<br>");
  absl::StrAppend(&out, absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", report.started, absl::UTCTimeZone()), "</p>\n");
  AppendTiles(report, &out);
  for (const TargetReport& target : report.targets) {
    if (target.ramp.has_value()) AppendRamp(report, target, &out);
  }
  absl::StrAppend(&out, "<div class=\"grid\">\n");
  AppendPlot(PercentilePlot(report), &out);
  AppendPlot(LatencyOverTimePlot(report), &out);
  AppendPlot(ThroughputOverTimePlot(report), &out);
  AppendStages(report.targets[0].stats.total, &out);
  absl::StrAppend(&out, "</div>\n");
  AppendGroups(report, &out);
  AppendErrors(report, &out);
  AppendConfiguration(report, &out);
  absl::StrAppend(&out, "</main></body></html>\n");
  return out;
}

}  // namespace tessera::load
