// How many regions, and how much shared memory, callers may have: one tenant, and all together.
#ifndef TESSERA_SERVER_REGION_REGION_QUOTA_H_
#define TESSERA_SERVER_REGION_REGION_QUOTA_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace tessera {

// Thread-safe. Outlives its charges.
class RegionQuota {
 public:
  struct Amount {
    int64_t regions = 0;
    int64_t bytes = 0;  // of shared memory
    friend bool operator==(const Amount&, const Amount&) = default;
  };

  // One region, given back by the destructor. Movable, not copyable.
  class Charge {
   public:
    Charge(Charge&& other) noexcept;
    Charge& operator=(Charge&& other) = delete;
    ~Charge();

   private:
    friend class RegionQuota;
    Charge(RegionQuota* quota, std::string tenant, int64_t bytes)
        : quota_(quota), tenant_(std::move(tenant)), bytes_(bytes) {}
    RegionQuota* quota_;
    std::string tenant_;
    int64_t bytes_;
  };

  // `most` of all callers together, `tenant_most` of one tenant.
  RegionQuota(Amount most, Amount tenant_most) : most_(most), tenant_most_(tenant_most) {}
  RegionQuota(const RegionQuota&) = delete;
  RegionQuota& operator=(const RegionQuota&) = delete;
  // REQUIRES: everything has been given back.
  ~RegionQuota();

  // For one region with `bytes` of shared memory. RESOURCE_EXHAUSTED where it does not fit now, INVALID_ARGUMENT where
  // it never will. REQUIRES: bytes >= 0.
  absl::StatusOr<Charge> Acquire(absl::string_view tenant, int64_t bytes);

  const Amount& most() const { return most_; }
  Amount in_use() const;

 private:
  void GiveBack(const std::string& tenant, int64_t bytes);

  const Amount most_;
  const Amount tenant_most_;
  mutable absl::Mutex mutex_;
  Amount in_use_ ABSL_GUARDED_BY(mutex_);
  absl::node_hash_map<std::string, Amount> tenants_ ABSL_GUARDED_BY(mutex_);  // of those that have any
};

}  // namespace tessera

#endif  // TESSERA_SERVER_REGION_REGION_QUOTA_H_
