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

absl::StatusOr<ByteBudget::Charge> ByteBudget::Acquire(absl::string_view tenant, Size size, int64_t beside) {
  ABSL_RAW_CHECK(size.bytes >= 0 && size.staged >= 0 && beside >= 0, "a charge is not negative");
  const int64_t most = std::min(limits_.bytes, limits_.tenant_bytes);
  if (size.bytes > most || beside > most - size.bytes) return Never("byte budget", size.bytes + beside, most);
  if (size.staged > limits_.tenant_staged) {
    return Never("staging memory for one tenant", size.staged, limits_.tenant_staged);
  }
  absl::MutexLock lock(&mutex_);
  if (size.bytes > limits_.bytes - in_use_) return NotNow("byte budget", size.bytes, in_use_, limits_.bytes);
  const auto found = accounts_.find(tenant);
  const Account held = found == accounts_.end() ? Account() : found->second;
  if (size.bytes > limits_.tenant_bytes - held.bytes) {
    return NotNow("the tenant's share of the byte budget", size.bytes, held.bytes, limits_.tenant_bytes);
  }
  if (size.staged > limits_.tenant_staged - held.staged) {
    return NotNow("the tenant's share of staging memory", size.staged, held.staged, limits_.tenant_staged);
  }
  if (size.bytes == 0) return Charge();
  Accounts::value_type& account = found == accounts_.end() ? *accounts_.try_emplace(tenant).first : *found;
  account.second.bytes += size.bytes;
  account.second.staged += size.staged;
  in_use_ += size.bytes;
  return Charge(this, &account, size);
}

void ByteBudget::GiveBack(Accounts::value_type* tenant, Size size) {
  absl::MutexLock lock(&mutex_);
  in_use_ -= size.bytes;
  tenant->second.bytes -= size.bytes;
  tenant->second.staged -= size.staged;
  if (tenant->second.bytes == 0) accounts_.erase(tenant->first);
}

int64_t ByteBudget::in_use() const {
  absl::MutexLock lock(&mutex_);
  return in_use_;
}

}  // namespace tessera
