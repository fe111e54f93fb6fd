#include "server/memory/byte_budget.h"

#include <algorithm>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

absl::Status NotNow(absl::string_view what, int64_t bytes, int64_t used, int64_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, ": ", bytes, " bytes do not fit now, ", used, " of ", limit, " are in use"));
}

absl::Status Never(absl::string_view what, int64_t bytes, int64_t limit) {
  return absl::InvalidArgumentError(
      absl::StrCat(bytes, " bytes for one call are more than the server's ", what, " of ", limit));
}

}  // namespace

ByteBudget::Charge::Charge(Charge&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)),
      tenant_(std::exchange(other.tenant_, nullptr)),
      size_(std::exchange(other.size_, Size{0})) {}

ByteBudget::Charge& ByteBudget::Charge::operator=(Charge&& other) noexcept {
  if (this != &other) {
    Release();
    budget_ = std::exchange(other.budget_, nullptr);
    tenant_ = std::exchange(other.tenant_, nullptr);
    size_ = std::exchange(other.size_, Size{0});
  }
  return *this;
}

ByteBudget::Charge::~Charge() { Release(); }

void ByteBudget::Charge::Release() {
  if (budget_ == nullptr) return;
  budget_->GiveBack(tenant_, size_);
  budget_ = nullptr;
  tenant_ = nullptr;
  size_ = {0};
}

absl::Status ByteBudget::CheckEver(Size size, int64_t beside) const {
  ABSL_RAW_CHECK(size.bytes >= 0 && size.staged >= 0 && beside >= 0, "a charge is not negative");
  const int64_t most = std::min(limits_.bytes, limits_.tenant_bytes);
  if (size.bytes > most || beside > most - size.bytes) return Never("byte budget", size.bytes + beside, most);
  const int64_t most_staged = std::min(limits_.staged, limits_.tenant_staged);
  if (size.staged > most_staged) return Never("staging memory for one tenant", size.staged, most_staged);
  return absl::OkStatus();
}

absl::Status ByteBudget::CheckRoom(const Account& held, Size size) const {
  const struct {
    absl::string_view what;
    int64_t wanted;
    int64_t used;
    int64_t limit;
  } bounds[] = {
      {"byte budget", size.bytes, in_use_.bytes, limits_.bytes},
      {"staging memory", size.staged, in_use_.staged, limits_.staged},
      {"the tenant's part of the byte budget", size.bytes, held.bytes, limits_.tenant_bytes},
      {"the tenant's part of staging memory", size.staged, held.staged, limits_.tenant_staged},
  };
  for (const auto& bound : bounds) {
    if (bound.wanted > bound.limit - bound.used) return NotNow(bound.what, bound.wanted, bound.used, bound.limit);
  }
  return absl::OkStatus();
}

bool ByteBudget::WithinShare(const Account& held, Size size, int64_t beside, size_t tenants) const {
  if (held.bytes <= beside) return true;
  const auto parts = static_cast<int64_t>(tenants);
  return held.bytes + size.bytes <= limits_.bytes / parts && held.staged + size.staged <= limits_.staged / parts;
}

absl::StatusOr<ByteBudget::Charge> ByteBudget::Acquire(absl::string_view tenant, Size size, int64_t beside) {
  if (absl::Status ever = CheckEver(size, beside); !ever.ok()) return ever;
  const absl::Time now = clock_->Now();
  absl::MutexLock lock(&mutex_);
  while (!claims_.empty() && claims_.front()->second.claims_until <= now) DropClaim();
  const auto found = accounts_.find(tenant);
  const bool known = found != accounts_.end();
  const Account held = known ? found->second : Account();
  const size_t tenants = accounts_.size() + (known ? 0 : 1);
  const bool within_share = WithinShare(held, size, beside, tenants);
  const bool others_claim = claims_.size() > (held.claim.has_value() ? 1 : 0);
  absl::Status status = CheckRoom(held, size);
  if (status.ok() && others_claim && !within_share) {
    status = NotNow("the tenant's share while others wait for memory", size.bytes, held.bytes,
                    limits_.bytes / static_cast<int64_t>(tenants));
  }
  if (status.ok()) return Take(found, tenant, size);
  if (within_share) AddClaim(tenant, now);
  return status;
}

absl::StatusOr<ByteBudget::Charge> ByteBudget::AcquireMore(absl::string_view tenant, Size size, int64_t beside) {
  if (absl::Status ever = CheckEver(size, beside); !ever.ok()) return ever;
  absl::MutexLock lock(&mutex_);
  const auto found = accounts_.find(tenant);
  if (absl::Status status = CheckRoom(found == accounts_.end() ? Account() : found->second, size); !status.ok()) {
    return status;
  }
  return Take(found, tenant, size);
}

absl::StatusOr<ByteBudget::Charge> ByteBudget::Take(Accounts::iterator found, absl::string_view tenant, Size size) {
  if (size.bytes == 0) return Charge();
  Accounts::value_type& account = found == accounts_.end() ? *accounts_.try_emplace(tenant).first : *found;
  account.second.bytes += size.bytes;
  account.second.staged += size.staged;
  in_use_.bytes += size.bytes;
  in_use_.staged += size.staged;
  return Charge(this, &account, size);
}

void ByteBudget::Claim(absl::string_view tenant) {
  const absl::Time now = clock_->Now();
  absl::MutexLock lock(&mutex_);
  const auto found = accounts_.find(tenant);
  const bool known = found != accounts_.end();
  const size_t tenants = accounts_.size() + (known ? 0 : 1);
  if (WithinShare(known ? found->second : Account(), {0}, 0, tenants)) AddClaim(tenant, now);
}

void ByteBudget::AddClaim(absl::string_view tenant, absl::Time now) {
  Accounts::value_type& account = *accounts_.try_emplace(tenant).first;
  if (account.second.claim.has_value()) claims_.erase(*account.second.claim);
  account.second.claims_until = now + kClaim;
  account.second.claim = claims_.insert(claims_.end(), &account);
  if (claims_.size() > kMaxClaims) DropClaim();
}

void ByteBudget::DropClaim() {
  Accounts::value_type& account = *claims_.front();
  claims_.pop_front();
  account.second.claim.reset();
  if (account.second.bytes == 0) accounts_.erase(account.first);
}

void ByteBudget::GiveBack(Accounts::value_type* tenant, Size size) {
  absl::MutexLock lock(&mutex_);
  in_use_.bytes -= size.bytes;
  in_use_.staged -= size.staged;
  tenant->second.bytes -= size.bytes;
  tenant->second.staged -= size.staged;
  if (tenant->second.bytes == 0 && !tenant->second.claim.has_value()) accounts_.erase(tenant->first);
}

int64_t ByteBudget::in_use() const {
  absl::MutexLock lock(&mutex_);
  return in_use_.bytes;
}

}  // namespace tessera
