#include "client/cpp/load/report_plots.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/load/quantity_format.h"

namespace tessera::load {
namespace {

// Colours of the series that have the same meaning in several plots.
constexpr int kServerColor = 0;
constexpr int kTailColor = 1;
constexpr int kMaxColor = 2;
constexpr int kErrorColor = 3;
constexpr int kEchoColor = 4;
constexpr int kFirstShapeColor = 5;

// More curves than this cannot be told apart.
constexpr size_t kMaxShapeCurves = 3;

constexpr double kPointsPerNine = 40;

std::string LatencyTick(double nanoseconds) {
  if (nanoseconds < 1e6) return absl::StrFormat("%g µs", nanoseconds / 1e3);
  if (nanoseconds < 1e9) return absl::StrFormat("%g ms", nanoseconds / 1e6);
  return absl::StrFormat("%g s", nanoseconds / 1e9);
}

std::string PercentileTick(double percentile) {
  // 99.999... prints as many nines as it has.
  const int digits = percentile < 95 ? 0 : static_cast<int>(std::lround(-std::log10(1 - percentile / 100))) - 2;
  return absl::StrFormat("p%.*f", std::max(digits, 0), percentile);
}

Axis LatencyAxis(Scale scale) { return {"latency", scale, LatencyTick}; }

Axis TimeAxis() {
  return {"time since the start", Scale::kLinear, [](double seconds) { return absl::StrFormat("%g s", seconds); }};
}

Series PercentileCurve(const std::string& name, int color, const Histogram& latency) {
  Series series{.name = name, .color = color, .dashed = false, .marked = false, .points = {}};
  if (latency.count() == 0) return series;
  // A curve ends where one single request decides it.
  const double nines = std::max(std::log10(static_cast<double>(latency.count())), 1.0);
  const int points = static_cast<int>(nines * kPointsPerNine);
  for (int i = 0; i <= points; ++i) {
    const double percentile = 100 * (1 - std::pow(10, -i / kPointsPerNine));
    const int64_t value = latency.Percentile(percentile);
    std::string tip;
    if (i % 5 == 0) tip = absl::StrFormat("%s: p%.6g = %s", name, percentile, FormatLatency(value));
    series.points.push_back({percentile, static_cast<double>(value), std::move(tip)});
  }
  return series;
}

using PointValue = double (*)(const TimelinePoint&);

Series OverTime(const std::string& name, int color, const std::vector<TimelinePoint>& timeline, PointValue value,
                std::string (*format)(double)) {
  Series series{.name = name, .color = color, .dashed = false, .marked = false, .points = {}};
  for (const TimelinePoint& point : timeline) {
    const double x = absl::ToDoubleSeconds(point.begin + point.length / 2);
    const double y = value(point);
    series.points.push_back({x, y, absl::StrFormat("%s at %.3g s: %s", name, x, format(y))});
  }
  return series;
}

std::string LatencyTip(double nanoseconds) { return FormatLatency(static_cast<int64_t>(nanoseconds)); }
std::string RateTip(double per_second) { return absl::StrFormat("%.5g/s", per_second); }

double OkRate(const TimelinePoint& point) {
  return static_cast<double>(point.ok) / absl::ToDoubleSeconds(point.length);
}
double ErrorRate(const TimelinePoint& point) {
  return static_cast<double>(point.failed + point.dropped) / absl::ToDoubleSeconds(point.length);
}

bool AnyError(const std::vector<TimelinePoint>& timeline) {
  return std::any_of(timeline.begin(), timeline.end(),
                     [](const TimelinePoint& point) { return point.failed + point.dropped > 0; });
}

std::vector<Band> WarmUpBands(const std::vector<TimelinePoint>& timeline) {
  std::vector<Band> bands;
  bool in_band = false;
  for (const TimelinePoint& point : timeline) {
    if (point.warm_up) {
      if (!in_band) bands.push_back({absl::ToDoubleSeconds(point.begin), 0, "warm-up"});
      bands.back().to = absl::ToDoubleSeconds(point.begin + point.length);
    }
    in_band = point.warm_up;
  }
  return bands;
}

// The steps by rising rate: bisections come last in a ramp, but belong between its other steps.
std::vector<const RampStep*> ByRate(const RampResult& ramp) {
  std::vector<const RampStep*> steps;
  steps.reserve(ramp.steps.size());
  for (const RampStep& step : ramp.steps) steps.push_back(&step);
  std::sort(steps.begin(), steps.end(), [](const RampStep* a, const RampStep* b) { return a->offered < b->offered; });
  return steps;
}

std::vector<Rule> KneeRule(const RampResult& ramp) {
  if (ramp.knee < 0) return {};
  const double at = ramp.steps[static_cast<size_t>(ramp.knee)].offered;
  return {{Rule::Direction::kVertical, at, absl::StrFormat("knee %.4g/s", at)}};
}

Axis OfferedAxis() { return {"offered requests/s", Scale::kLinear, nullptr}; }

}  // namespace

Plot PercentilePlot(const Report& report) {
  Plot plot{.title = "Latency by percentile",
            .x = {"percentile", Scale::kPercentile, PercentileTick},
            .y = LatencyAxis(Scale::kLog),
            .series = {},
            .rules = {},
            .bands = {}};
  const TargetReport& first = report.targets[0];
  plot.series.push_back(PercentileCurve(first.name, kServerColor, first.stats.total.latency));
  if (first.stats.shapes.size() > 1) {
    for (size_t i = 0; i < std::min(first.stats.shapes.size(), kMaxShapeCurves); ++i) {
      const GroupStats& shape = first.stats.shapes[i];
      plot.series.push_back(PercentileCurve(shape.name, kFirstShapeColor + static_cast<int>(i), shape.latency));
    }
  }
  for (size_t i = 1; i < report.targets.size(); ++i) {
    plot.series.push_back(PercentileCurve(report.targets[i].name, kEchoColor, report.targets[i].stats.total.latency));
    plot.series.back().dashed = true;
  }
  if (report.slo_p99.has_value()) {
    plot.rules.push_back({Rule::Direction::kHorizontal, absl::ToDoubleNanoseconds(*report.slo_p99), "SLO, p99"});
  }
  return plot;
}

Plot LatencyOverTimePlot(const Report& report) {
  Plot plot{.title = "Latency over time",
            .x = TimeAxis(),
            .y = LatencyAxis(Scale::kLog),
            .series = {},
            .rules = {},
            .bands = WarmUpBands(report.targets[0].timeline)};
  const std::vector<TimelinePoint>& timeline = report.targets[0].timeline;
  const auto p50 = [](const TimelinePoint& point) { return static_cast<double>(point.p50_ns); };
  const auto p99 = [](const TimelinePoint& point) { return static_cast<double>(point.p99_ns); };
  const auto max = [](const TimelinePoint& point) { return static_cast<double>(point.max_ns); };
  plot.series.push_back(OverTime("max", kMaxColor, timeline, max, LatencyTip));
  plot.series.push_back(OverTime("p99", kTailColor, timeline, p99, LatencyTip));
  plot.series.push_back(OverTime("p50", kServerColor, timeline, p50, LatencyTip));
  for (size_t i = 1; i < report.targets.size(); ++i) {
    plot.series.push_back(OverTime(absl::StrCat(report.targets[i].name, " p50"), kEchoColor, report.targets[i].timeline,
                                   p50, LatencyTip));
    plot.series.back().dashed = true;
  }
  return plot;
}

Plot ThroughputOverTimePlot(const Report& report) {
  Plot plot{.title = "Throughput over time",
            .x = TimeAxis(),
            .y = {"requests/s", Scale::kLinear, nullptr},
            .series = {},
            .rules = {},
            .bands = WarmUpBands(report.targets[0].timeline)};
  for (const TargetReport& target : report.targets) {
    const bool first = &target == &report.targets[0];
    plot.series.push_back(OverTime(target.name, first ? kServerColor : kEchoColor, target.timeline, OkRate, RateTip));
    plot.series.back().dashed = !first;
    if (AnyError(target.timeline)) {
      plot.series.push_back(
          OverTime(absl::StrCat(target.name, " errors"), kErrorColor, target.timeline, ErrorRate, RateTip));
      plot.series.back().dashed = !first;
    }
  }
  return plot;
}

Plot RampThroughputPlot(const TargetReport& target) {
  Plot plot{.title = "Offered against answered",
            .x = OfferedAxis(),
            .y = {"answered requests/s", Scale::kLinear, nullptr},
            .series = {},
            .rules = KneeRule(*target.ramp),
            .bands = {}};
  Series ideal{.name = "offered", .color = kEchoColor, .dashed = true, .marked = false, .points = {{0, 0, ""}}};
  Series answered{.name = "answered", .color = kServerColor, .dashed = false, .marked = true, .points = {}};
  for (const RampStep* step : ByRate(*target.ramp)) {
    const double rate = step->stats.total.requests_per_second;
    ideal.points.push_back({step->offered, step->offered, ""});
    answered.points.push_back({step->offered, rate,
                               absl::StrFormat("%.5g/s offered, %.5g/s answered%s%s", step->offered, rate,
                                               step->met_slo ? "" : ": ", step->broken)});
  }
  plot.series = {std::move(answered), std::move(ideal)};
  return plot;
}

Plot RampLatencyPlot(const TargetReport& target, const Report& report) {
  Plot plot{.title = "Latency against offered rate",
            .x = OfferedAxis(),
            .y = LatencyAxis(Scale::kLog),
            .series = {},
            .rules = KneeRule(*target.ramp),
            .bands = {}};
  if (report.slo_p99.has_value()) {
    plot.rules.push_back({Rule::Direction::kHorizontal, absl::ToDoubleNanoseconds(*report.slo_p99),
                          absl::StrCat("SLO, p99 ", FormatLatency(absl::ToInt64Nanoseconds(*report.slo_p99)))});
  }
  for (const auto& [name, percentile, color] : {std::tuple{"p50", 50.0, kServerColor}, {"p99", 99.0, kTailColor}}) {
    Series series{.name = name, .color = color, .dashed = false, .marked = true, .points = {}};
    for (const RampStep* step : ByRate(*target.ramp)) {
      const int64_t value = step->stats.total.latency.Percentile(percentile);
      series.points.push_back({step->offered, static_cast<double>(value),
                               absl::StrFormat("%s at %.5g/s: %s", name, step->offered, FormatLatency(value))});
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

}  // namespace tessera::load
