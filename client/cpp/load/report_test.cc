#include "client/cpp/load/report.h"

#include <algorithm>
#include <string>

#include "client/cpp/load/plot_scale.h"
#include "client/cpp/load/quantity_format.h"
#include "client/cpp/load/svg_plot.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tessera::load {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

GroupStats Group(const std::string& name, int64_t latency_us, double rate) {
  GroupStats group;
  group.name = name;
  group.ok = 100;
  group.requests_per_second = rate;
  group.upload_bytes_per_second = rate * 3e6;
  for (int i = 1; i <= 100; ++i) group.latency.Record(latency_us * 1000 * i);
  return group;
}

TargetReport Target(const std::string& name, int64_t latency_us, double rate) {
  TargetReport target;
  target.name = name;
  target.stats.window = absl::Seconds(10);
  target.stats.shapes = {Group("small", latency_us, rate / 2), Group("large <&>", latency_us, rate / 2)};
  target.stats.total.name = "all";
  for (const GroupStats& shape : target.stats.shapes) target.stats.total.Merge(shape);
  for (int i = 0; i < 3; ++i) {
    target.timeline.push_back({absl::Seconds(i), absl::Seconds(1), 50, 0, 0, 1000000, 2000000, 3000000, i == 0});
  }
  return target;
}

Report SampleReport() {
  Report report;
  report.started = absl::FromUnixSeconds(1764428400);
  report.load = "closed loop, 64 callers";
  report.server = "tessera 0.1.0";
  report.configuration = {{"mode", "closed"}, {"shape", "s=1,name=large <&>"}};
  report.targets = {Target("server", 20, 50), Target("echo", 10, 200)};
  GroupStats& total = report.targets[0].stats.total;
  total.failed = 2;
  total.errors[absl::StatusCode::kResourceExhausted] = 2;
  total.run.Record(5000);
  total.batch_requests.Record(8);
  report.check = CheckResult{4, 64, 1, 3.5, "small: row 7"};
  return report;
}

TEST(ReportTest, RatioComparesServerWithEcho) {
  const auto ratio = CompareWithEcho(SampleReport());
  ASSERT_TRUE(ratio.has_value());
  EXPECT_DOUBLE_EQ(ratio->requests_per_second, 0.25);
  EXPECT_NEAR(ratio->p50, 2, 0.01);
  EXPECT_NEAR(ratio->p99, 2, 0.01);
  Report alone = SampleReport();
  alone.targets.pop_back();
  EXPECT_FALSE(CompareWithEcho(alone).has_value());
}

TEST(ReportTest, LatencyHasThreeDigits) {
  EXPECT_EQ(FormatLatency(0), "0.00 us");
  EXPECT_EQ(FormatLatency(1234), "1.23 us");
  EXPECT_EQ(FormatLatency(99949), "99.9 us");
  EXPECT_EQ(FormatLatency(99960), "100 us");
  EXPECT_EQ(FormatLatency(999600), "1.00 ms");
  EXPECT_EQ(FormatLatency(int64_t{12345678901}), "12.3 s");
  EXPECT_EQ(FormatByteRate(2.5e9), "2.50 GB/s");
  EXPECT_EQ(FormatByteRate(417e6), "417 MB/s");
}

TEST(ReportTest, JsonHoldsTheFigures) {
  const auto json = nlohmann::json::parse(RenderJson(SampleReport()));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["started_at"], "2025-11-29T15:00:00+00:00");
  EXPECT_EQ(json["configuration"]["mode"], "closed");
  const auto& server = json["targets"][0];
  EXPECT_EQ(server["name"], "server");
  EXPECT_EQ(server["window_seconds"], 10);
  EXPECT_EQ(server["total"]["ok"], 200);
  EXPECT_EQ(server["total"]["errors"]["RESOURCE_EXHAUSTED"], 2);
  EXPECT_NEAR(server["total"]["latency_us"]["p50"].get<double>(), 1000, 1);
  EXPECT_EQ(server["total"]["latency_us"]["max"], 2000);
  EXPECT_EQ(server["total"]["server"]["run_us"]["max"], 5);
  EXPECT_EQ(server["total"]["server"]["batch_requests"]["mean"], 8);
  EXPECT_EQ(server["shapes"].size(), 2u);
  EXPECT_EQ(server["timeline"][2]["begin_seconds"], 2);
  EXPECT_EQ(server["timeline"][2]["p99_us"], 2000);
  EXPECT_EQ(server["timeline"][0]["warm_up"], true);
  EXPECT_EQ(server["timeline"][1]["warm_up"], false);
  EXPECT_FALSE(server.contains("ramp"));
  EXPECT_FALSE(json["targets"][1]["total"].contains("server"));
  EXPECT_EQ(json["server_over_echo"]["requests_per_second"], 0.25);
  EXPECT_EQ(json["check"]["wrong_rows"], 1);
}

TEST(ReportTest, JsonOfARampNamesTheKnee) {
  Report report = SampleReport();
  RampStep step;
  step.offered = 120;
  step.stats = report.targets[0].stats;
  step.met_slo = true;
  report.targets[0].ramp = RampResult{{step}, 0, false};
  EXPECT_EQ(nlohmann::json::parse(RenderJson(report))["targets"][0]["ramp"]["knee_per_second"], 120);
  EXPECT_THAT(RenderText(report), HasSubstr("knee: 120.0 requests/s or more"));
  report.targets[0].ramp->knee = -1;
  EXPECT_TRUE(nlohmann::json::parse(RenderJson(report))["targets"][0]["ramp"]["knee_per_second"].is_null());
  EXPECT_THAT(RenderText(report), HasSubstr("no knee"));
}

TEST(ReportTest, TextShowsEachPart) {
  const std::string text = RenderText(SampleReport());
  for (const char* part : {"closed loop, 64 callers", "tessera 0.1.0", "  small", "1.00 ms", "server / echo", "0.250x",
                           "requests in the batch", "RESOURCE_EXHAUSTED", "wrong rows: 1", "small: row 7"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(ReportTest, HtmlIsSelfContainedAndEscaped) {
  Report report = SampleReport();
  RampStep step;
  step.offered = 120;
  step.stats = report.targets[0].stats;
  step.broken = "p99 3 ms > 2 ms";
  report.targets[0].ramp = RampResult{{step}, -1, true};
  const std::string html = RenderHtml(report);
  EXPECT_THAT(html, HasSubstr("<svg viewBox"));
  EXPECT_THAT(html, HasSubstr("class=\"band\""));
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(html, HasSubstr("large &lt;&amp;&gt;"));
  EXPECT_THAT(html, HasSubstr("p99 3 ms &gt; 2 ms"));
  EXPECT_THAT(html, Not(HasSubstr("large <&>")));
  for (const char* external : {"http://", "https://", "src=", "@import", "url("}) {
    EXPECT_THAT(html, Not(HasSubstr(external)));
  }
}

TEST(PlotScaleTest, LinearStartsAtZeroAndEndsOnATick) {
  const PlotScale scale(Scale::kLinear, {3, 870, 12});
  EXPECT_THAT(scale.ticks(), ElementsAre(0, 200, 400, 600, 800, 1000));
  EXPECT_EQ(scale.Position(0), 0);
  EXPECT_EQ(scale.Position(500), 0.5);
}

TEST(PlotScaleTest, LogTicksSurroundTheValues) {
  const PlotScale scale(Scale::kLog, {0, 3e5, 4e6});
  ASSERT_EQ(scale.ticks().size(), 5u);
  EXPECT_NEAR(scale.ticks().front(), 2e5, 1);
  EXPECT_NEAR(scale.ticks().back(), 5e6, 1);
  EXPECT_NEAR(*scale.Position(1e6), 0.5, 1e-9);
  EXPECT_FALSE(scale.Position(0).has_value());
  const PlotScale wide(Scale::kLog, {1, 1e6});
  EXPECT_EQ(wide.ticks().size(), 7u);
  const PlotScale one(Scale::kLog, {100});
  EXPECT_GE(one.ticks().size(), 2u);
  EXPECT_GE(*one.Position(100), 0);
  EXPECT_LE(*one.Position(100), 1);
}

TEST(PlotScaleTest, EachNineTakesTheSameWidth) {
  const PlotScale scale(Scale::kPercentile, {0, 50, 99.99});
  EXPECT_THAT(scale.ticks(), ElementsAre(0, 50, DoubleNear(90, 1e-9), DoubleNear(99, 1e-9), DoubleNear(99.9, 1e-9),
                                         DoubleNear(99.99, 1e-9)));
  EXPECT_NEAR(*scale.Position(90), 0.25, 1e-9);
  EXPECT_NEAR(*scale.Position(99), 0.5, 1e-9);
  EXPECT_NEAR(*scale.Position(99.99), 1, 1e-9);
  EXPECT_FALSE(scale.Position(100).has_value());
}

TEST(SvgPlotTest, DrawsLinesAndBreaksThemWhereNothingCanBeShown) {
  Plot plot;
  plot.title = "a < b";
  plot.y.scale = Scale::kLog;
  plot.series = {{"one", 3, true, false, {{0, 10, ""}, {1, 0, ""}, {2, 20, ""}, {3, 30, "tip"}}}};
  const std::string svg = RenderSvg(plot);
  EXPECT_THAT(svg, HasSubstr("aria-label=\"a &lt; b\""));
  EXPECT_THAT(svg, HasSubstr("class=\"line c3 dashed\" d=\"M"));
  EXPECT_THAT(svg, HasSubstr("<title>tip</title>"));
  const std::string path = svg.substr(svg.find("d=\"M"));
  EXPECT_EQ(std::count(path.begin(), path.begin() + static_cast<long>(path.find("/>")), 'M'), 2);
  EXPECT_EQ(RenderLegend(plot), "");
}

TEST(SvgPlotTest, EmptyPlotSaysSo) { EXPECT_THAT(RenderSvg(Plot()), HasSubstr("no data")); }

}  // namespace
}  // namespace tessera::load
