#include "server/device/device.h"

namespace tessera {

absl::StatusOr<std::unique_ptr<StagingPool::Region>> Device::TakePages(size_t) {
  return absl::UnimplementedError("the device keeps no pages of resident sequences");
}

absl::StatusOr<std::unique_ptr<StagingPool::Region>> Device::TakeHostPages(size_t) {
  return absl::UnimplementedError("the device moves no pages of resident sequences to the host");
}

BatchOutcome Device::Extend(int, const PagedParams&, absl::Span<const ExtendItem>, const std::stop_token&) {
  BatchOutcome outcome;
  outcome.status = absl::UnimplementedError("the device keeps no pages of resident sequences");
  return outcome;
}

}  // namespace tessera
