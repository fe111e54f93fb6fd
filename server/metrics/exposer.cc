#include "server/metrics/exposer.h"

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tessera {

MetricsExposer::MetricsExposer(std::unique_ptr<prometheus::Exposer> exposer,
                               std::vector<std::shared_ptr<prometheus::Collectable>> collectables)
    : collectables_(std::move(collectables)),
      exposer_(std::move(exposer)),
      port_(exposer_->GetListeningPorts().front()) {
  for (const auto& collectable : collectables_) exposer_->RegisterCollectable(collectable);
}

absl::StatusOr<std::unique_ptr<MetricsExposer>> MetricsExposer::Start(
    const std::string& address, std::vector<std::shared_ptr<prometheus::Collectable>> collectables) {
  // A request that is not sent to its end holds a thread until the time-out: scrapes must find another meanwhile.
  const std::vector<std::string> options = {"listening_ports",    address, "num_threads", "8",
                                            "request_timeout_ms", "2000"};
  // The HTTP library reports an address in use by an exception.
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(options);
    if (exposer->GetListeningPorts().empty()) {
      return absl::UnavailableError(absl::StrCat("metrics: not listening on ", address));
    }
    return std::unique_ptr<MetricsExposer>(new MetricsExposer(std::move(exposer), std::move(collectables)));
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("metrics: cannot listen on ", address, ": ", error.what()));
  }
}

}  // namespace tessera
