#include "server/region/region_quota.h"

#include <algorithm>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

absl::Status CheckRoom(absl::string_view whose, const RegionQuota::Amount& used, const RegionQuota::Amount& most,
                       int64_t bytes) {
  if (used.regions >= most.regions) {
    return absl::ResourceExhaustedError(absl::StrCat("regions: ", whose, " ", most.regions, " are open"));
  }
  if (bytes > most.bytes - used.bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("shared memory: ", bytes, " bytes do not fit now, ", used.bytes,
                                                     " of ", whose, " ", most.bytes, " are in use"));
  }
  return absl::OkStatus();
}

}  // namespace

RegionQuota::Charge::Charge(Charge&& other) noexcept
    : quota_(std::exchange(other.quota_, nullptr)), tenant_(std::move(other.tenant_)), bytes_(other.bytes_) {}

RegionQuota::Charge::~Charge() {
  if (quota_ != nullptr) quota_->GiveBack(tenant_, bytes_);
}

RegionQuota::~RegionQuota() { ABSL_RAW_CHECK(in_use() == Amount(), "a quota outlives its charges"); }

absl::StatusOr<RegionQuota::Charge> RegionQuota::Acquire(absl::string_view tenant, int64_t bytes) {
  const int64_t ever = std::min(most_.bytes, tenant_most_.bytes);
  if (bytes > ever) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared_memory.bytes: ", bytes, " with whole pages, the server's limit is ", ever));
  }
  absl::MutexLock lock(&mutex_);
  const auto found = tenants_.find(tenant);
  const Amount held = found == tenants_.end() ? Amount() : found->second;
  absl::Status status = CheckRoom("all", in_use_, most_, bytes);
  if (status.ok()) status = CheckRoom("the tenant's", held, tenant_most_, bytes);
  if (!status.ok()) return status;
  Amount& account = tenants_[std::string(tenant)];
  for (Amount* amount : {&in_use_, &account}) {
    ++amount->regions;
    amount->bytes += bytes;
  }
  return Charge(this, std::string(tenant), bytes);
}

RegionQuota::Amount RegionQuota::in_use() const {
  absl::MutexLock lock(&mutex_);
  return in_use_;
}

void RegionQuota::GiveBack(const std::string& tenant, int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  const auto account = tenants_.find(tenant);
  for (Amount* amount : {&in_use_, &account->second}) {
    --amount->regions;
    amount->bytes -= bytes;
  }
  if (account->second.regions == 0) tenants_.erase(account);
}

}  // namespace tessera
