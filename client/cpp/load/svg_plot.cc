#include "client/cpp/load/svg_plot.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/cpp/load/plot_scale.h"

namespace tessera::load {
namespace {

// In units of the view box.
constexpr double kWidth = 720;
constexpr double kHeight = 320;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 26;
constexpr double kBottom = 44;

std::string FormatTick(const Axis& axis, double value) {
  return axis.format ? axis.format(value) : absl::StrFormat("%.6g", value);
}

// A plot with its scales: turns values into coordinates and draws part by part.
class Drawing {
 public:
  explicit Drawing(const Plot& plot) : plot_(plot), x_(plot.x.scale, Xs(plot)), y_(plot.y.scale, Ys(plot)) {}

  std::string Render() {
    absl::StrAppendFormat(&svg_, "<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">\n", kWidth, kHeight,
                          EscapeXml(plot_.title));
    DrawBands();
    DrawAxes();
    DrawRules();
    bool any = false;
    for (const Series& series : plot_.series) any |= DrawSeries(series);
    if (!any) Text("note", kWidth / 2, kHeight / 2, "middle", "no data");
    absl::StrAppend(&svg_, "</svg>\n");
    return std::move(svg_);
  }

 private:
  static std::vector<double> Xs(const Plot& plot) {
    std::vector<double> values;
    for (const Series& series : plot.series) {
      for (const PlotPoint& point : series.points) values.push_back(point.x);
    }
    for (const Rule& rule : plot.rules) {
      if (rule.direction == Rule::Direction::kVertical) values.push_back(rule.at);
    }
    return values;
  }

  static std::vector<double> Ys(const Plot& plot) {
    std::vector<double> values;
    for (const Series& series : plot.series) {
      for (const PlotPoint& point : series.points) values.push_back(point.y);
    }
    for (const Rule& rule : plot.rules) {
      if (rule.direction == Rule::Direction::kHorizontal) values.push_back(rule.at);
    }
    return values;
  }

  std::optional<double> X(double value) const {
    const std::optional<double> position = x_.Position(value);
    if (!position.has_value()) return std::nullopt;
    return kLeft + *position * (kWidth - kLeft - kRight);
  }

  std::optional<double> Y(double value) const {
    const std::optional<double> position = y_.Position(value);
    if (!position.has_value()) return std::nullopt;
    return kHeight - kBottom - *position * (kHeight - kTop - kBottom);
  }

  void Line(absl::string_view style, double x1, double y1, double x2, double y2) {
    absl::StrAppendFormat(&svg_, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", style, x1,
                          y1, x2, y2);
  }

  void Text(absl::string_view style, double x, double y, absl::string_view anchor, absl::string_view text) {
    absl::StrAppendFormat(&svg_, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", style, x, y,
                          anchor, EscapeXml(text));
  }

  void DrawBands() {
    for (const Band& band : plot_.bands) {
      const double from = std::max(X(band.from).value_or(kLeft), kLeft);
      const double to = std::min(X(band.to).value_or(kLeft), kWidth - kRight);
      if (to <= from) continue;
      absl::StrAppendFormat(&svg_, "<rect class=\"band\" x=\"%.1f\" y=\"%g\" width=\"%.1f\" height=\"%g\"/>\n", from,
                            kTop, to - from, kHeight - kTop - kBottom);
      Text("note", from + 4, kTop + 13, "start", band.label);
    }
  }

  void DrawAxes() {
    for (const double tick : y_.ticks()) {
      Line("grid", kLeft, *Y(tick), kWidth - kRight, *Y(tick));
      Text("tick", kLeft - 8, *Y(tick) + 4, "end", FormatTick(plot_.y, tick));
    }
    for (const double tick : x_.ticks()) {
      Line("mark", *X(tick), kHeight - kBottom, *X(tick), kHeight - kBottom + 5);
      Text("tick", *X(tick), kHeight - kBottom + 18, "middle", FormatTick(plot_.x, tick));
    }
    Line("axis", kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom);
    Text("label", kLeft - 56, 14, "start", plot_.y.label);
    Text("label", kWidth - kRight, kHeight - 6, "end", plot_.x.label);
  }

  void DrawRules() {
    for (const Rule& rule : plot_.rules) {
      if (rule.direction == Rule::Direction::kHorizontal) {
        const double y = Y(rule.at).value_or(kTop);
        Line("rule", kLeft, y, kWidth - kRight, y);
        Text("note", kLeft + 4, y - 5, "start", rule.label);
      } else {
        const double x = X(rule.at).value_or(kLeft);
        Line("rule", x, kTop, x, kHeight - kBottom);
        const bool right_half = x > kWidth / 2;
        Text("note", right_half ? x - 5 : x + 5, kTop + 13, right_half ? "end" : "start", rule.label);
      }
    }
  }

  // Returns whether there was anything to draw.
  bool DrawSeries(const Series& series) {
    std::string path;
    std::string dots;
    bool pen_down = false;
    for (const PlotPoint& point : series.points) {
      const std::optional<double> x = X(point.x);
      const std::optional<double> y = Y(point.y);
      if (!x.has_value() || !y.has_value()) {
        pen_down = false;
        continue;
      }
      absl::StrAppendFormat(&path, "%s%.1f %.1f", pen_down ? "L" : "M", *x, *y);
      pen_down = true;
      if (series.marked || !point.tip.empty()) {
        absl::StrAppendFormat(&dots,
                              "<circle class=\"%s c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>%s</title></circle>\n",
                              series.marked ? "dot" : "hit", series.color, *x, *y, EscapeXml(point.tip));
      }
    }
    if (path.empty()) return false;
    absl::StrAppendFormat(&svg_, "<path class=\"line c%d%s\" d=\"%s\"/>\n", series.color,
                          series.dashed ? " dashed" : "", path);
    absl::StrAppend(&svg_, dots);
    return true;
  }

  const Plot& plot_;
  const PlotScale x_;
  const PlotScale y_;
  std::string svg_;
};

}  // namespace

std::string RenderSvg(const Plot& plot) { return Drawing(plot).Render(); }

std::string RenderLegend(const Plot& plot) {
  if (plot.series.size() < 2) return "";
  std::string html = "<ul class=\"legend\">";
  for (const Series& series : plot.series) {
    absl::StrAppendFormat(&html,
                          "<li><svg viewBox=\"0 0 22 10\" aria-hidden=\"true\"><path class=\"line c%d%s\" d=\"M1 5L21 "
                          "5\"/></svg>%s</li>",
                          series.color, series.dashed ? " dashed" : "", EscapeXml(series.name));
  }
  return html + "</ul>\n";
}

std::string EscapeXml(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

}  // namespace tessera::load
