#include "client/cpp/load/plot_scale.h"

#include <algorithm>
#include <cmath>

namespace tessera::load {
namespace {

constexpr double kMaxLinearTicks = 6;
constexpr int kMaxLogTicks = 8;

}  // namespace

PlotScale::PlotScale(Scale scale, const std::vector<double>& values) : scale_(scale) {
  std::vector<double> shown;
  for (const double value : values) {
    if (Transform(value).has_value()) shown.push_back(value);
  }
  const auto [low, high] = std::minmax_element(shown.begin(), shown.end());
  const bool empty = shown.empty();
  switch (scale_) {
    case Scale::kLinear:
      MakeLinear(empty ? 1 : *high);
      break;
    case Scale::kLog:
      MakeLog(empty ? 1 : *low, empty ? 10 : *high);
      break;
    case Scale::kPercentile:
      MakePercentile(empty ? 90 : *high);
      break;
  }
}

std::optional<double> PlotScale::Transform(double value) const {
  if (!std::isfinite(value)) return std::nullopt;
  if (scale_ == Scale::kLinear) return value;
  if (scale_ == Scale::kLog) return value > 0 ? std::optional<double>(std::log10(value)) : std::nullopt;
  return value >= 0 && value < 100 ? std::optional<double>(-std::log10(1 - value / 100)) : std::nullopt;
}

void PlotScale::MakeLinear(double high) {
  if (high <= 0) high = 1;
  double step = std::pow(10, std::floor(std::log10(high / kMaxLinearTicks)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (high / (step * factor) <= kMaxLinearTicks) {
      step *= factor;
      break;
    }
  }
  const int count = static_cast<int>(std::ceil(high / step - 1e-9));
  for (int i = 0; i <= count; ++i) ticks_.push_back(step * i);
  end_ = ticks_.back();
}

void PlotScale::MakeLog(double low, double high) {
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = static_cast<int>(std::floor(std::log10(high))) + 1;
  // The finest set of ticks, from the last one not above `low` to the first one not below `high`, that is not too many.
  for (const std::vector<double>& digits : {std::vector<double>{1, 2, 5}, std::vector<double>{1}}) {
    std::vector<double> candidates;
    for (int decade = first; decade <= last; ++decade) {
      for (const double digit : digits) candidates.push_back(digit * std::pow(10, decade));
    }
    const auto begin = std::upper_bound(candidates.begin(), candidates.end(), low * (1 + 1e-9)) - 1;
    auto end = std::lower_bound(candidates.begin(), candidates.end(), high * (1 - 1e-9));
    if (end == begin) ++end;
    ticks_.assign(begin, end + 1);
    if (ticks_.size() <= kMaxLogTicks) break;
  }
  begin_ = std::log10(ticks_.front());
  end_ = std::log10(ticks_.back());
}

void PlotScale::MakePercentile(double high) {
  ticks_ = {0, 50};
  double rest = 10;
  do {
    ticks_.push_back(100 - rest);
    rest /= 10;
  } while (ticks_.back() < high * (1 - 1e-12));
  // The curve ends where it ends, between two nines.
  end_ = std::max(*Transform(high), 1.0);
  if (*Transform(ticks_.back()) > end_) ticks_.pop_back();
}

std::optional<double> PlotScale::Position(double value) const {
  const std::optional<double> transformed = Transform(value);
  if (!transformed.has_value()) return std::nullopt;
  return (*transformed - begin_) / (end_ - begin_);
}

}  // namespace tessera::load
