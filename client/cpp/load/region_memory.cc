#include "client/cpp/load/region_memory.h"

#include <cstring>
#include <utility>

namespace tessera::load {

absl::StatusOr<std::unique_ptr<RegionMemory>> RegionMemory::Open(RegionSession* session, CudaDriver* driver,
                                                                 size_t bytes) {
  if (driver == nullptr) {
    absl::StatusOr<Region> region = session->OpenSharedMemory(bytes);
    if (!region.ok()) return region.status();
    return std::unique_ptr<RegionMemory>(new RegionMemory(*std::move(region), nullptr));
  }
  const absl::StatusOr<CudaAllocation> allocation = driver->Allocate(bytes);
  if (!allocation.ok()) return allocation.status();
  absl::StatusOr<Region> region = session->OpenCudaMemory(*allocation);
  if (!region.ok()) {
    driver->Free(allocation->memory);
    return region.status();
  }
  return std::unique_ptr<RegionMemory>(new RegionMemory(*std::move(region), driver));
}

RegionMemory::~RegionMemory() {
  const absl::Span<std::byte> memory = region_.memory();
  region_.Close().IgnoreError();  // a server that has gone holds nothing
  if (driver_ != nullptr) driver_->Free(memory);
}

absl::Status RegionMemory::Write(size_t offset, absl::Span<const std::byte> bytes) {
  if (driver_ != nullptr) return driver_->CopyIn(bytes, memory().subspan(offset, bytes.size()));
  if (!bytes.empty()) std::memcpy(memory().data() + offset, bytes.data(), bytes.size());
  return absl::OkStatus();
}

absl::Status RegionMemory::Read(absl::Span<const std::byte> from, absl::Span<std::byte> to) const {
  if (driver_ != nullptr) return driver_->CopyOut(from, to);
  if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
  return absl::OkStatus();
}

}  // namespace tessera::load
