// Where a value lies along an axis, and which values deserve a tick.
#ifndef TESSERA_CLIENT_CPP_LOAD_PLOT_SCALE_H_
#define TESSERA_CLIENT_CPP_LOAD_PLOT_SCALE_H_

#include <optional>
#include <vector>

#include "client/cpp/load/svg_plot.h"

namespace tessera::load {

// Covers the values that it was made for, widened to whole ticks.
class PlotScale {
 public:
  // Values that the scale cannot show are ignored; with none left it covers a range of its own.
  PlotScale(Scale scale, const std::vector<double>& values);

  // 0 to 1 along the axis, or nothing where the scale cannot show the value.
  std::optional<double> Position(double value) const;

  // Ascending, 2 to about 9 of them.
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  void MakeLinear(double high);
  void MakeLog(double low, double high);
  void MakePercentile(double high);

  // To the coordinate in which the axis is linear.
  std::optional<double> Transform(double value) const;

  const Scale scale_;
  std::vector<double> ticks_;
  double begin_ = 0;  // transformed
  double end_ = 1;
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_PLOT_SCALE_H_
