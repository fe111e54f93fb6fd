#include "server/rpc/send_watch.h"

#include "server/rpc/caller.h"

namespace tessera {

SendWatch::SendWatch(const AttendEnvironment& environment, grpc::CallbackServerContext* context)
    : environment_(environment), context_(context) {}

void SendWatch::Sending() {
  absl::MutexLock lock(&mutex_);
  since_ = environment_.clock->Now();
  if (!token_.has_value()) Arm();
}

void SendWatch::Sent() {
  absl::MutexLock lock(&mutex_);
  since_.reset();
}

void SendWatch::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  if (token_.has_value()) environment_.deadlines->Remove(*token_);
}

absl::Status SendWatch::Reason() const {
  if (timed_out_) return absl::DeadlineExceededError("the client did not read the answer in time");
  return CancellationReason(*context_);
}

void SendWatch::Arm() {
  token_ = environment_.deadlines->Add(*since_ + environment_.limits.send_timeout, [weak = weak_from_this()] {
    if (const std::shared_ptr<SendWatch> watch = weak.lock()) watch->Look();
  });
}

void SendWatch::Look() {
  absl::MutexLock lock(&mutex_);
  token_.reset();
  if (closed_ || !since_.has_value()) return;
  if (environment_.clock->Now() < *since_ + environment_.limits.send_timeout) return Arm();
  timed_out_ = true;
  context_->TryCancel();  // its OnCancel comes on another thread
}

}  // namespace tessera
