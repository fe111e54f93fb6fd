// What each tenant holds, and how much it may.
#ifndef TESSERA_SERVER_CACHE_TENANT_LEDGER_H_
#define TESSERA_SERVER_CACHE_TENANT_LEDGER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "server/cache/page.h"

namespace tessera {

struct TenantQuota {
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  int64_t sequences = kUnlimited;
  int64_t device_pages = kUnlimited;
  int64_t host_pages = kUnlimited;
  int64_t table_pages = kUnlimited;
};

// Whose rows a page may hold. Never given out twice: a tenant that leaves and comes back is another one.
enum class TenantId : uint64_t {
  kNobody = 0,   // a page that has never been written
  kSeveral = 1,  // a page that more than one tenant's rows may be in
  kFirst = 2,
};

struct Tenant {
  std::string name;
  TenantId id = TenantId::kNobody;
  TenantQuota quota;
  int64_t sequences = 0;                    // live ones, and released ones that a step still reads
  std::array<int64_t, kPlaces> pages = {};  // by place; a page that several of its sequences share counts once
  int64_t table_pages = 0;                  // of the tables of all of these; a page counts in each of them

  int64_t page_quota(Place place) const { return place == Place::kDevice ? quota.device_pages : quota.host_pages; }
  int64_t& pages_at(Place place) { return pages[static_cast<size_t>(place)]; }
  int64_t pages_at(Place place) const { return pages[static_cast<size_t>(place)]; }
};

// Not thread-safe. Knows exactly the tenants that have sequences, so that its size does not grow with the names that
// callers have ever used. Pointers are good until the tenant is dropped.
class TenantLedger {
 public:
  // Tenants named in `quotas` have those, all others `default_quota`.
  TenantLedger(const TenantQuota& default_quota, absl::flat_hash_map<std::string, TenantQuota> quotas)
      : default_quota_(default_quota), quotas_(std::move(quotas)) {}

  // Null where the tenant has no sequences.
  Tenant* Find(absl::string_view name) const;
  // Of a tenant, whether it has sequences or not.
  const TenantQuota& QuotaOf(absl::string_view name) const;
  Tenant& FindOrAdd(absl::string_view name);
  // Forgets the tenant if it has no sequences left. REQUIRES: then it has no pages either.
  void DropIfIdle(Tenant& tenant);

  const absl::flat_hash_map<std::string, std::unique_ptr<Tenant>>& tenants() const { return tenants_; }

 private:
  const TenantQuota default_quota_;
  const absl::flat_hash_map<std::string, TenantQuota> quotas_;
  uint64_t next_id_ = static_cast<uint64_t>(TenantId::kFirst);
  absl::flat_hash_map<std::string, std::unique_ptr<Tenant>> tenants_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CACHE_TENANT_LEDGER_H_
