#include "server/cache/tenant_ledger.h"

#include "absl/base/internal/raw_logging.h"

namespace tessera {

Tenant* TenantLedger::Find(absl::string_view name) const {
  const auto found = tenants_.find(name);
  return found == tenants_.end() ? nullptr : found->second.get();
}

const TenantQuota& TenantLedger::QuotaOf(absl::string_view name) const {
  const auto found = quotas_.find(name);
  return found == quotas_.end() ? default_quota_ : found->second;
}

Tenant& TenantLedger::FindOrAdd(absl::string_view name) {
  std::unique_ptr<Tenant>& tenant = tenants_[name];
  if (tenant == nullptr) {
    tenant = std::make_unique<Tenant>();
    tenant->name = std::string(name);
    tenant->id = static_cast<TenantId>(next_id_++);
    tenant->quota = QuotaOf(name);
  }
  return *tenant;
}

void TenantLedger::DropIfIdle(Tenant& tenant) {
  if (tenant.sequences > 0) return;
  ABSL_RAW_CHECK(tenant.pages_at(Place::kDevice) == 0 && tenant.pages_at(Place::kHost) == 0,
                 "pages without a sequence");
  const std::string name = tenant.name;  // erase destroys the tenant's own
  tenants_.erase(name);
}

}  // namespace tessera
