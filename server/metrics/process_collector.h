// process_* metrics of this process, read from /proc/self at scrape time.
#ifndef TESSERA_SERVER_METRICS_PROCESS_COLLECTOR_H_
#define TESSERA_SERVER_METRICS_PROCESS_COLLECTOR_H_

#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace tessera {

// Thread-safe. A value that the system does not give is left out.
class ProcessCollector final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_METRICS_PROCESS_COLLECTOR_H_
