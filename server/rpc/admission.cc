#include "server/rpc/admission.h"

#include <utility>

#include "absl/status/status.h"

namespace tessera {

Admission::Ticket::Ticket(Ticket&& other) noexcept : admission_(std::exchange(other.admission_, nullptr)) {}

Admission::Ticket& Admission::Ticket::operator=(Ticket&& other) noexcept {
  std::swap(admission_, other.admission_);
  return *this;
}

Admission::Ticket::~Ticket() {
  if (admission_ != nullptr) admission_->Leave();
}

absl::StatusOr<ByteBudget::Charge> Admission::AdmitMessage(int64_t bytes) {
  absl::StatusOr<ByteBudget::Charge> charge = budget_->Acquire(bytes);
  if (!charge.ok()) return Refused(charge.status(), RejectReason::kByteBudget);
  return charge;
}

absl::StatusOr<Admission::Grant> Admission::AdmitCall(const AttendShape& shape) {
  absl::StatusOr<Ticket> ticket = Enter();
  if (!ticket.ok()) return Refused(ticket.status(), RejectReason::kDraining);
  absl::StatusOr<ByteBudget::Charge> charge = budget_->Acquire(shape.input_bytes() + shape.output_bytes());
  if (!charge.ok()) return Refused(charge.status(), RejectReason::kByteBudget);
  absl::StatusOr<StagingBuffer> input = staging_->Allocate(static_cast<size_t>(shape.input_bytes()));
  if (!input.ok()) return Refused(input.status(), RejectReason::kStaging);
  absl::StatusOr<StagingBuffer> output = staging_->Allocate(static_cast<size_t>(shape.output_bytes()));
  if (!output.ok()) return Refused(output.status(), RejectReason::kStaging);
  return Grant{*std::move(ticket), *std::move(charge), *std::move(input), *std::move(output)};
}

absl::Status Admission::Refused(absl::Status status, RejectReason full) {
  observer_->OnRejected(absl::IsInvalidArgument(status) ? RejectReason::kInvalid : full);
  return status;
}

absl::StatusOr<Admission::Ticket> Admission::Enter() {
  absl::MutexLock lock(&mutex_);
  if (closed_) return absl::UnavailableError("the server is draining");
  ++tickets_;
  return Ticket(this);
}

void Admission::Leave() {
  absl::MutexLock lock(&mutex_);
  --tickets_;
}

void Admission::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

bool Admission::Drain(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto empty = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return tickets_ == 0; };
  return clock_->AwaitWithDeadline(&mutex_, absl::Condition(&empty), deadline);
}

}  // namespace tessera
