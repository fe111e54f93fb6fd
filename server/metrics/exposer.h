// Serves /metrics over HTTP on a port of its own.
#ifndef TESSERA_SERVER_METRICS_EXPOSER_H_
#define TESSERA_SERVER_METRICS_EXPOSER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"

namespace tessera {

// Thread-safe. The destructor stops serving.
class MetricsExposer {
 public:
  // Listens on `address` ("host:port" or "port"; port 0 takes a free one) and serves what `collectables` collect.
  // UNAVAILABLE where the address cannot be had.
  static absl::StatusOr<std::unique_ptr<MetricsExposer>> Start(
      const std::string& address, std::vector<std::shared_ptr<prometheus::Collectable>> collectables);

  int port() const { return port_; }

 private:
  MetricsExposer(std::unique_ptr<prometheus::Exposer> exposer,
                 std::vector<std::shared_ptr<prometheus::Collectable>> collectables);

  const std::vector<std::shared_ptr<prometheus::Collectable>> collectables_;
  const std::unique_ptr<prometheus::Exposer> exposer_;
  const int port_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_METRICS_EXPOSER_H_
