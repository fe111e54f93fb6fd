#include "server/device/cuda/pinned_region.h"

namespace tessera {

absl::StatusOr<std::unique_ptr<PinnedRegion>> PinnedRegion::Allocate(size_t bytes, CudaCalls* calls) {
  const absl::StatusOr<std::byte*> data = calls->AllocatePinned(bytes);
  if (!data.ok()) return data.status();
  return std::unique_ptr<PinnedRegion>(new PinnedRegion(*data, bytes, calls));
}

PinnedRegion::~PinnedRegion() { calls_->FreePinned(data_); }

}  // namespace tessera
