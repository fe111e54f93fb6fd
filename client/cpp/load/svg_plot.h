// Line plots as SVG text, coloured by the classes of the page that they stand in.
#ifndef TESSERA_CLIENT_CPP_LOAD_SVG_PLOT_H_
#define TESSERA_CLIENT_CPP_LOAD_SVG_PLOT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tessera::load {

enum class Scale {
  kLinear,      // from 0
  kLog,         // ticks at 1, 2, 5 of each decade
  kPercentile,  // values are percentiles below 100; each nine takes the same width
};

struct Axis {
  std::string label;
  Scale scale = Scale::kLinear;
  std::function<std::string(double)> format;  // of a tick; null: shortest decimal
};

struct PlotPoint {
  double x = 0;
  double y = 0;
  std::string tip;  // shown when pointed at; none where empty
};

struct Series {
  std::string name;
  int color = 0;  // class "c<color>"
  bool dashed = false;
  bool marked = false;  // a dot on each point
  std::vector<PlotPoint> points;
};

// A line across the plot at one value, such as a limit.
struct Rule {
  enum class Direction { kHorizontal, kVertical };
  Direction direction = Direction::kHorizontal;
  double at = 0;
  std::string label;
};

// A shaded range of x, such as a warm-up.
struct Band {
  double from = 0;
  double to = 0;
  std::string label;
};

struct Plot {
  std::string title;  // for screen readers
  Axis x;
  Axis y;
  std::vector<Series> series;
  std::vector<Rule> rules;
  std::vector<Band> bands;
};

// An <svg> element that scales with its container. Points that a scale cannot show (0 on a log axis, NaN) break the
// line. Without any point it says "no data".
std::string RenderSvg(const Plot& plot);

// The series' names and colours, as an HTML list; empty where there is only one.
std::string RenderLegend(const Plot& plot);

// Replaces & < > " ' by entities.
std::string EscapeXml(absl::string_view text);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_SVG_PLOT_H_
