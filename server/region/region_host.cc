#include "server/region/region_host.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/region/shared_memory.h"

namespace tessera {
namespace {

class SharedMemoryRegion final : public MemoryRegion {
 public:
  // `pin` is null where no device needs it.
  SharedMemoryRegion(RegionQuota::Charge charge, std::unique_ptr<SharedMemory> shared, size_t bytes,
                     std::unique_ptr<RegionMapper::Mapping> pin)
      : charge_(std::move(charge)), shared_(std::move(shared)), bytes_(bytes), pin_(std::move(pin)) {}

  RegionKind kind() const override { return RegionKind::kSharedMemory; }
  absl::Span<std::byte> memory() const override { return shared_->memory().first(bytes_); }
  int device() const override { return -1; }
  void HidePath() override { shared_->Hide(); }

 private:
  const RegionQuota::Charge charge_;
  const std::unique_ptr<SharedMemory> shared_;
  const size_t bytes_;  // as asked for
  const std::unique_ptr<RegionMapper::Mapping> pin_;
};

class CudaMemoryRegion final : public MemoryRegion {
 public:
  CudaMemoryRegion(RegionQuota::Charge charge, RegionMapper::Import import, size_t bytes, int device)
      : charge_(std::move(charge)), import_(std::move(import)), bytes_(bytes), device_(device) {}

  RegionKind kind() const override { return RegionKind::kCudaMemory; }
  absl::Span<std::byte> memory() const override { return import_.memory.first(bytes_); }
  int device() const override { return device_; }

 private:
  const RegionQuota::Charge charge_;
  const RegionMapper::Import import_;
  const size_t bytes_;  // as asked for
  const int device_;
};

RegionQuota::Amount PartOf(const RegionLimits& limits, double share) {
  const auto part = [share](int64_t whole) {
    return share >= 1 ? whole : std::max<int64_t>(1, static_cast<int64_t>(share * static_cast<double>(whole)));
  };
  return {.regions = part(limits.max_regions), .bytes = part(limits.max_bytes)};
}

absl::Status NotAllowed(absl::string_view kind, absl::string_view flag) {
  return absl::FailedPreconditionError(absl::StrCat(kind, ": this server does not allow it (", flag, ")"));
}

}  // namespace

RegionHost::RegionHost(const RegionLimits& limits, double tenant_share, std::vector<RegionMapper*> mappers)
    : limits_(limits),
      mappers_(std::move(mappers)),
      quota_({.regions = limits.max_regions, .bytes = limits.max_bytes}, PartOf(limits, tenant_share)),
      tasks_(kThreads) {}

void RegionHost::OpenSharedMemory(const std::string& tenant, uint64_t bytes, OpenedFn opened, GoneFn gone) {
  if (!limits_.allow_shared_memory) return opened(NotAllowed("shared_memory", "allow_shared_memory"));
  if (bytes == 0 || bytes > SharedMemory::kMostBytes) {
    return opened(absl::InvalidArgumentError(
        absl::StrCat("shared_memory.bytes: ", bytes, " is not in 1 to ", limits_.max_bytes)));
  }
  absl::StatusOr<RegionQuota::Charge> charge =
      quota_.Acquire(tenant, static_cast<int64_t>(SharedMemory::RoundedUp(bytes)));
  if (!charge.ok()) return opened(charge.status());
  // A std::function wants to be copied, but this one runs once.
  auto held = std::make_shared<RegionQuota::Charge>(*std::move(charge));
  tasks_.Post(tenant,
              [this, tenant, bytes, held = std::move(held), opened = std::move(opened), gone = std::move(gone)] {
                absl::StatusOr<Opened> region = Create(tenant, static_cast<size_t>(bytes), std::move(*held), gone);
                opened(std::move(region));  // by when a charge that came to nothing has been given back
              });
}

void RegionHost::OpenCudaMemory(const std::string& tenant, const CudaIpcHandle& handle, const DeviceUuid& device,
                                uint64_t bytes, OpenedFn opened, GoneFn gone) {
  if (!limits_.allow_cuda_ipc) return opened(NotAllowed("cuda_memory", "allow_cuda_ipc"));
  if (bytes == 0) return opened(absl::InvalidArgumentError("cuda_memory.used_bytes: 0"));
  const int index = DeviceOf(device);
  if (index < 0) return opened(absl::NotFoundError("cuda_memory.device_uuid: the server has no such device"));
  absl::StatusOr<RegionQuota::Charge> charge = quota_.Acquire(tenant, 0);
  if (!charge.ok()) return opened(charge.status());
  auto held = std::make_shared<RegionQuota::Charge>(*std::move(charge));
  tasks_.Post(tenant, [this, tenant, index, handle, bytes, held = std::move(held), opened = std::move(opened),
                       gone = std::move(gone)] {
    absl::StatusOr<Opened> region = Import(tenant, index, handle, bytes, std::move(*held), gone);
    opened(std::move(region));
  });
}

bool RegionHost::allows_cuda_memory() const {
  return limits_.allow_cuda_ipc &&
         std::any_of(mappers_.begin(), mappers_.end(), [](const RegionMapper* mapper) { return mapper != nullptr; });
}

template <typename R>
std::shared_ptr<MemoryRegion> RegionHost::Share(const std::string& tenant, std::unique_ptr<R> region, GoneFn gone) {
  return std::shared_ptr<MemoryRegion>(region.release(), [this, tenant, gone = std::move(gone)](MemoryRegion* last) {
    tasks_.Post(tenant, [last, gone] {
      delete last;
      gone();
    });
  });
}

absl::StatusOr<RegionHost::Opened> RegionHost::Create(const std::string& tenant, size_t bytes,
                                                      RegionQuota::Charge charge, GoneFn gone) {
  absl::StatusOr<std::unique_ptr<SharedMemory>> shared = SharedMemory::Create(bytes);
  if (!shared.ok()) return shared.status();
  std::unique_ptr<RegionMapper::Mapping> pin;
  const auto mapper =
      std::find_if(mappers_.begin(), mappers_.end(), [](const RegionMapper* found) { return found != nullptr; });
  if (mapper != mappers_.end()) {
    absl::StatusOr<std::unique_ptr<RegionMapper::Mapping>> pinned = (*mapper)->Pin((*shared)->memory());
    if (!pinned.ok()) return pinned.status();
    pin = *std::move(pinned);
  }
  Opened opened;
  opened.path = (*shared)->path();
  opened.name = (*shared)->name();
  opened.region =
      Share(tenant, std::make_unique<SharedMemoryRegion>(std::move(charge), *std::move(shared), bytes, std::move(pin)),
            std::move(gone));
  return opened;
}

absl::StatusOr<RegionHost::Opened> RegionHost::Import(const std::string& tenant, int device,
                                                      const CudaIpcHandle& handle, uint64_t bytes,
                                                      RegionQuota::Charge charge, GoneFn gone) {
  absl::StatusOr<RegionMapper::Import> import = mappers_[static_cast<size_t>(device)]->Open(handle);
  if (!import.ok()) return import.status();
  if (bytes > import->memory.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cuda_memory.used_bytes: ", bytes, ", the allocation has ", import->memory.size()));
  }
  Opened opened;
  opened.region = Share(
      tenant,
      std::make_unique<CudaMemoryRegion>(std::move(charge), *std::move(import), static_cast<size_t>(bytes), device),
      std::move(gone));
  return opened;
}

int RegionHost::DeviceOf(const DeviceUuid& uuid) const {
  for (size_t i = 0; i < mappers_.size(); ++i) {
    if (mappers_[i] != nullptr && mappers_[i]->uuid() == uuid) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace tessera
