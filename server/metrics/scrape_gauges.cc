#include "server/metrics/scrape_gauges.h"

#include <utility>

#include "prometheus/client_metric.h"

namespace tessera {

void ScrapeGauges::Add(const std::string& name, const std::string& help, const prometheus::Labels& labels,
                       ValueFn value, prometheus::MetricType type) {
  if (families_.empty() || families_.back().name != name) {
    prometheus::MetricFamily& family = families_.emplace_back();
    family.name = name;
    family.help = help;
    family.type = type;
  }
  prometheus::ClientMetric& metric = families_.back().metric.emplace_back();
  for (const auto& [key, label_value] : labels) metric.label.push_back({key, label_value});
  gauges_.push_back({families_.size() - 1, families_.back().metric.size() - 1, std::move(value)});
}

std::vector<prometheus::MetricFamily> ScrapeGauges::Collect() const {
  std::vector<prometheus::MetricFamily> families = families_;
  for (const Gauge& gauge : gauges_) {
    prometheus::MetricFamily& family = families[gauge.family];
    prometheus::ClientMetric& metric = family.metric[gauge.metric];
    (family.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = gauge.value();
  }
  return families;
}

}  // namespace tessera
