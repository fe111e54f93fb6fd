// Opens and closes regions.
#ifndef TESSERA_SERVER_REGION_REGION_HOST_H_
#define TESSERA_SERVER_REGION_REGION_HOST_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/region/region.h"
#include "server/region/region_mapper.h"
#include "server/region/region_quota.h"
#include "server/region/tenant_tasks.h"

namespace tessera {

struct RegionLimits {
  bool allow_shared_memory = false;
  bool allow_cuda_ipc = false;
  int64_t max_bytes = int64_t{1} << 30;  // of shared memory, all callers together
  int64_t max_regions = 256;             // of either kind, all callers together
};

// Taking, pinning and mapping memory can take seconds, and so can giving it back. All of that happens on threads of
// this class's own, for each tenant one region after the other: neither gRPC's threads nor the engine's ever wait for
// it, and a tenant waits for others only while as many of them as there are threads are at it. Thread-safe. Outlives
// its regions.
class RegionHost {
 public:
  // A region just opened. Path and name are those of SharedMemory, and empty of other memory.
  struct Opened {
    std::shared_ptr<MemoryRegion> region;
    std::string path;
    std::string name;
  };
  // Runs on a thread of the host's, or, where the region is refused at once, before the call returns.
  using OpenedFn = std::function<void(absl::StatusOr<Opened>)>;
  // Runs on a thread of the host's when the region's memory has been let go of.
  using GoneFn = std::function<void()>;

  // `mappers`: of the server's devices, in the order of their indexes, null of one that is no GPU. `tenant_share`: the
  // part of the limits that one tenant may have, in (0, 1].
  RegionHost(const RegionLimits& limits, double tenant_share, std::vector<RegionMapper*> mappers);
  RegionHost(const RegionHost&) = delete;
  RegionHost& operator=(const RegionHost&) = delete;
  // Does what has been asked for. REQUIRES: every region has been let go of.
  ~RegionHost() = default;

  // FAILED_PRECONDITION where regions of the kind are not allowed here; INVALID_ARGUMENT for a size that can never be
  // had; RESOURCE_EXHAUSTED where it cannot be now. `gone` is not called for a region that was not opened.
  void OpenSharedMemory(const std::string& tenant, uint64_t bytes, OpenedFn opened, GoneFn gone);

  // As above. NOT_FOUND where no device has the UUID; INVALID_ARGUMENT where the handle cannot be opened there, or the
  // allocation is smaller than `bytes`.
  void OpenCudaMemory(const std::string& tenant, const CudaIpcHandle& handle, const DeviceUuid& device, uint64_t bytes,
                      OpenedFn opened, GoneFn gone);

  bool allows_shared_memory() const { return limits_.allow_shared_memory; }
  bool allows_cuda_memory() const;
  const RegionQuota& quota() const { return quota_; }

 private:
  // Tenants whose regions are opened and closed at the same time.
  static constexpr int kThreads = 4;

  // Where a region leaves its memory when it is let go of: on a thread of the host's.
  template <typename R>
  std::shared_ptr<MemoryRegion> Share(const std::string& tenant, std::unique_ptr<R> region, GoneFn gone);
  absl::StatusOr<Opened> Create(const std::string& tenant, size_t bytes, RegionQuota::Charge charge, GoneFn gone);
  absl::StatusOr<Opened> Import(const std::string& tenant, int device, const CudaIpcHandle& handle, uint64_t bytes,
                                RegionQuota::Charge charge, GoneFn gone);
  // The index of the device; -1 where there is none.
  int DeviceOf(const DeviceUuid& uuid) const;

  const RegionLimits limits_;
  const std::vector<RegionMapper*> mappers_;
  RegionQuota quota_;
  TenantTasks tasks_;  // last, for what it has yet to do uses the others
};

}  // namespace tessera

#endif  // TESSERA_SERVER_REGION_REGION_HOST_H_
