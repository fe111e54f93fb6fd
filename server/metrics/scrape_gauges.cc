#include "server/metrics/scrape_gauges.h"

#include <utility>

#include "prometheus/client_metric.h"
#include "prometheus/metric_type.h"

namespace tessera {

void ScrapeGauges::Add(const std::string& name, const std::string& help, const prometheus::Labels& labels,
                       ValueFn value) {
  if (families_.empty() || families_.back().name != name) {
    prometheus::MetricFamily& family = families_.emplace_back();
    family.name = name;
    family.help = help;
    family.type = prometheus::MetricType::Gauge;
  }
  prometheus::ClientMetric& metric = families_.back().metric.emplace_back();
  for (const auto& [key, label_value] : labels) metric.label.push_back({key, label_value});
  gauges_.push_back({families_.size() - 1, families_.back().metric.size() - 1, std::move(value)});
}

std::vector<prometheus::MetricFamily> ScrapeGauges::Collect() const {
  std::vector<prometheus::MetricFamily> families = families_;
  for (const Gauge& gauge : gauges_) families[gauge.family].metric[gauge.metric].gauge.value = gauge.value();
  return families;
}

}  // namespace tessera
