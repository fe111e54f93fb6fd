#include "server/memory/byte_budget.h"

#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tessera {

ByteBudget::Charge::Charge(Charge&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

ByteBudget::Charge& ByteBudget::Charge::operator=(Charge&& other) noexcept {
  if (this != &other) {
    Release();
    budget_ = std::exchange(other.budget_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

ByteBudget::Charge::~Charge() { Release(); }

void ByteBudget::Charge::Release() {
  if (budget_ == nullptr) return;
  budget_->in_use_.fetch_sub(bytes_, std::memory_order_relaxed);
  budget_ = nullptr;
  bytes_ = 0;
}

absl::StatusOr<ByteBudget::Charge> ByteBudget::Acquire(int64_t bytes) {
  ABSL_RAW_CHECK(bytes >= 0, "a charge is not negative");
  if (bytes > limit_) {
    return absl::InvalidArgumentError(absl::StrCat(bytes, " bytes are more than the server's budget of ", limit_));
  }
  int64_t used = in_use_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ - used) {
      return absl::ResourceExhaustedError(
          absl::StrCat("byte budget: ", bytes, " bytes do not fit now, ", used, " of ", limit_, " are in use"));
    }
  } while (!in_use_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return Charge(this, bytes);
}

}  // namespace tessera
