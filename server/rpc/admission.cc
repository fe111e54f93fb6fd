#include "server/rpc/admission.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/status.h"

namespace tessera {
namespace {

// What a buffer of `bytes` takes of the pool.
int64_t Staged(int64_t bytes) {
  constexpr auto kAlignment = static_cast<int64_t>(StagingPool::kAlignment);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Admission::Ticket::Ticket(Ticket&& other) noexcept : admission_(std::exchange(other.admission_, nullptr)) {}

Admission::Ticket& Admission::Ticket::operator=(Ticket&& other) noexcept {
  std::swap(admission_, other.admission_);
  return *this;
}

Admission::Ticket::~Ticket() {
  if (admission_ != nullptr) admission_->Leave();
}

absl::StatusOr<ByteBudget::Charge> Admission::AdmitMessage(absl::string_view tenant, int64_t bytes,
                                                           int64_t call_bytes) {
  if (bytes > max_message_bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the message has ", bytes, " bytes, above the limit of max_message_bytes = ", max_message_bytes_));
  }
  absl::StatusOr<ByteBudget::Charge> charge =
      call_bytes == 0 ? budget_->Acquire(tenant, {bytes}) : budget_->AcquireMore(tenant, {bytes}, call_bytes);
  if (!charge.ok()) return WithReason(charge.status(), RejectReason::kByteBudget);
  return charge;
}

absl::StatusOr<Admission::Grant> Admission::AdmitCall(absl::string_view tenant, const CallMemory& memory,
                                                      int64_t message_bytes) {
  absl::StatusOr<Ticket> ticket = Enter();
  if (!ticket.ok()) return ticket.status();
  const int64_t staged = Staged(memory.input_bytes) + Staged(memory.output_bytes);
  const auto capacity = static_cast<int64_t>(staging_->capacity());
  if (staged > capacity) {
    return absl::InvalidArgumentError(
        absl::StrCat("input and output of ", staged, " bytes are more than the server's staging memory of ", capacity));
  }
  absl::StatusOr<ByteBudget::Charge> charge =
      budget_->Acquire(tenant, {.bytes = memory.held_bytes, .staged = staged}, message_bytes);
  if (!charge.ok()) {
    const bool fits_but_for_staging = budget_->Acquire(tenant, {memory.held_bytes}).ok();
    return WithReason(charge.status(), fits_but_for_staging ? RejectReason::kStaging : RejectReason::kByteBudget);
  }
  absl::StatusOr<StagingBuffer> input = staging_->Allocate(static_cast<size_t>(memory.input_bytes));
  absl::StatusOr<StagingBuffer> output = staging_->Allocate(static_cast<size_t>(memory.output_bytes));
  for (const absl::Status& status : {input.status(), output.status()}) {
    if (status.ok()) continue;
    budget_->Claim(tenant);  // the bytes are there, but in pieces
    return WithReason(status, RejectReason::kStaging);
  }
  return Grant{*std::move(ticket), *std::move(charge), *std::move(input), *std::move(output)};
}

absl::StatusOr<Admission::Grant> Admission::AdmitRegionCall(absl::string_view tenant, const AttendShape& shape,
                                                            int64_t message_bytes) {
  absl::StatusOr<Ticket> ticket = Enter();
  if (!ticket.ok()) return ticket.status();
  absl::StatusOr<ByteBudget::Charge> charge = budget_->Acquire(tenant, {shape.metadata_bytes()}, message_bytes);
  if (!charge.ok()) return WithReason(charge.status(), RejectReason::kByteBudget);
  return Grant{*std::move(ticket), *std::move(charge), {}, {}};
}

absl::Status Admission::CheckOpen() {
  absl::MutexLock lock(&mutex_);
  return refusal_;
}

absl::StatusOr<Admission::Ticket> Admission::Enter() {
  absl::MutexLock lock(&mutex_);
  if (!refusal_.ok()) return refusal_;
  ++tickets_;
  return Ticket(this);
}

void Admission::Leave() {
  absl::MutexLock lock(&mutex_);
  --tickets_;
}

void Admission::Close(const absl::Status& refusal) {
  absl::MutexLock lock(&mutex_);
  refusal_.Update(refusal);
}

bool Admission::Drain(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto empty = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return tickets_ == 0; };
  return clock_->AwaitWithDeadline(&mutex_, absl::Condition(&empty), deadline);
}

}  // namespace tessera
