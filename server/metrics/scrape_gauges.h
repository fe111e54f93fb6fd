// Gauges, and counters that others keep, whose value is asked for at scrape time.
#ifndef TESSERA_SERVER_METRICS_SCRAPE_GAUGES_H_
#define TESSERA_SERVER_METRICS_SCRAPE_GAUGES_H_

#include <functional>
#include <string>
#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/labels.h"
#include "prometheus/metric_family.h"
#include "prometheus/metric_type.h"

namespace tessera {

// Add all of them before the first scrape; Collect is thread-safe. The callbacks must be, too.
class ScrapeGauges final : public prometheus::Collectable {
 public:
  using ValueFn = std::function<double()>;

  // Those of one name must be added one after the other, and be of one type.
  void Add(const std::string& name, const std::string& help, const prometheus::Labels& labels, ValueFn value,
           prometheus::MetricType type = prometheus::MetricType::Gauge);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  struct Gauge {
    size_t family;
    size_t metric;
    ValueFn value;
  };

  std::vector<prometheus::MetricFamily> families_;  // with labels, values unset
  std::vector<Gauge> gauges_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_METRICS_SCRAPE_GAUGES_H_
