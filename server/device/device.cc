#include "server/device/device.h"

namespace tessera {

absl::StatusOr<std::unique_ptr<StagingPool::Region>> Device::TakePages(size_t) {
  return absl::UnimplementedError("the device keeps no pages of resident sequences");
}

BatchOutcome Device::Extend(int, const PagedParams&, absl::Span<const ExtendItem>, const std::stop_token&) {
  BatchOutcome outcome;
  outcome.status = absl::UnimplementedError("the device keeps no pages of resident sequences");
  return outcome;
}

}  // namespace tessera
