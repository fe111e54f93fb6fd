#include "server/rpc/extend_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/wire/attend_encode.h"
#include "server/rpc/caller.h"
#include "server/rpc/extend_message.h"
#include "server/rpc/queue_extend.h"
#include "server/rpc/status.h"

namespace tessera {
namespace {

grpc::ByteBuffer EncodeFailure(uint64_t id, const absl::Status& status, absl::Duration retry_after) {
  v1::ExtendStreamResponse message;
  message.set_id(id);
  *message.mutable_status() = ToCallStatus(status, retry_after);
  return wire::EncodeExtendStreamResponse(message, {}, {});
}

}  // namespace

ExtendStream* ExtendStream::Start(const SequenceEnvironment& environment, StreamRegistry* registry,
                                  grpc::CallbackServerContext* context) {
  std::shared_ptr<ExtendStream> stream(new ExtendStream(environment, registry, context));
  stream->self_ = stream;
  registry->Add(stream);
  absl::MutexLock lock(&stream->mutex_);
  if (stream->finished_) return stream.get();  // the server is draining
  if (const absl::Status& tenant = stream->tenant_.status(); tenant.ok()) {
    stream->ReadNext();
  } else {
    CountEnding(tenant, Station::kReceive, environment.attend.observer);
    stream->FinishWith(tenant);
  }
  return stream.get();
}

ExtendStream::ExtendStream(const SequenceEnvironment& environment, StreamRegistry* registry,
                           grpc::CallbackServerContext* context)
    : environment_(environment),
      attend_(environment.attend),
      registry_(registry),
      context_(context),
      started_(attend_.clock->Now()),
      send_watch_(std::make_shared<SendWatch>(attend_, context)),
      tenant_(context->client_metadata(), attend_.tokens) {
  attend_.observer->OnRpcStarted(RpcMethod::kExtendStream);
}

void ExtendStream::OnReadDone(bool ok) {
  if (!ok) {
    absl::MutexLock lock(&mutex_);
    half_closed_ = true;
    return Advance();
  }
  if (const absl::Status token = tenant_.Check(); !token.ok()) {
    incoming_.Clear();
    CountEnding(token, Station::kReceive, attend_.observer);
    return Break(StreamTenant::ComeAgain(), StreamTenant::ComeAgain());
  }
  const absl::Status status = HandleMessage();
  incoming_.Clear();
  if (!status.ok()) {
    CountEnding(status, Station::kReceive, attend_.observer);
    return Break(absl::CancelledError("a malformed message ended the stream"), status);
  }
  absl::MutexLock lock(&mutex_);
  if (!finished_ && !broken_.has_value()) ReadNext();
}

absl::Status ExtendStream::HandleMessage() {
  const absl::StatusOr<wire::DecodedExtendStreamRequest> message = wire::DecodeExtendStreamRequest(incoming_);
  if (!message.ok()) return message.status();
  const ExtendJobPtr open = FindJob(message->id);
  const bool opens = message->header.has_value();
  if (message->cancel) {
    const bool alone = !opens && message->q.empty() && message->k.empty() && message->v.empty();
    const absl::Status status = alone ? absl::CancelledError("the caller cancelled")
                                      : absl::InvalidArgumentError("cancel: such a message carries nothing else");
    if (open != nullptr) {
      EndCall(open, status);
    } else if (opens) {
      Refuse(message->id, status);
    }
  } else if (open != nullptr) {
    EndCall(open, absl::InvalidArgumentError(absl::StrCat("id: ", message->id, " names a call that is open")));
  } else {
    OpenCall(*message);
  }
  return absl::OkStatus();
}

void ExtendStream::OpenCall(const wire::DecodedExtendStreamRequest& message) {
  size_t open_calls;
  {
    absl::MutexLock lock(&mutex_);
    open_calls = calls_.size();
  }
  if (static_cast<int64_t>(open_calls) >= attend_.limits.max_stream_calls) {
    return Refuse(message.id,
                  WithReason(absl::ResourceExhaustedError(absl::StrCat("the stream has ", open_calls,
                                                                       " open calls, as many as one stream may have")),
                             RejectReason::kStreamCalls));
  }
  const absl::Time arrived = attend_.clock->Now();
  const auto message_bytes = static_cast<int64_t>(incoming_.Length());
  const absl::StatusOr<ByteBudget::Charge> charge = attend_.admission->AdmitMessage(tenant_.name(), message_bytes);
  if (!charge.ok()) return Refuse(message.id, charge.status());
  const absl::Duration timeout = ToTimeout(message.timeout_us);
  const absl::Time deadline = std::min(DeadlineOf(*context_, *attend_.clock), arrived + timeout);
  absl::StatusOr<AdmittedExtend> admitted =
      AdmitExtend(environment_, tenant_.name(), message, message_bytes, deadline,
                  [stream = shared_from_this(), id = message.id](const absl::Status& status, Job::State where) {
                    stream->TakeEnd(id, status, where);
                  });
  if (!admitted.ok()) return Refuse(message.id, admitted.status());
  const ExtendJobPtr job = std::move(admitted->job);
  absl::Status calls_end;
  {
    absl::MutexLock lock(&mutex_);
    if (broken_.has_value() || finished_) {
      calls_end = absl::CancelledError("the stream ended");
    } else {
      calls_end = calls_end_;
      Call& call = calls_[message.id];
      call.job = job;
      call.ticket = std::move(admitted->ticket);
      // gRPC watches the stream's own deadline.
      if (timeout != absl::InfiniteDuration()) {
        call.deadline = attend_.deadlines->Add(deadline, [stream = weak_from_this(), weak = std::weak_ptr(job)] {
          const std::shared_ptr<ExtendStream> self = stream.lock();
          const ExtendJobPtr late = weak.lock();
          if (self != nullptr && late != nullptr) {
            self->EndCall(late, absl::DeadlineExceededError("the call's timeout_us passed"));
          }
        });
      }
    }
  }
  const absl::Time queue_time = attend_.clock->Now();
  job->SetArrival(arrived, queue_time);
  attend_.observer->OnStage(Stage::kReceive, queue_time - arrived);
  // From here on the call may end, and be answered, at any time.
  if (!calls_end.ok()) return EndCall(job, calls_end);
  QueueInTurn(environment_, job);
}

void ExtendStream::Refuse(uint64_t id, const absl::Status& status) {
  CountEnding(status, Station::kReceive, attend_.observer);
  const absl::Duration retry_after = RetryAfter(status, attend_.scheduler->RetryAfter());
  absl::MutexLock lock(&mutex_);
  Push({.id = id, .status = status, .retry_after = retry_after});
  Advance();
}

void ExtendStream::TakeEnd(uint64_t id, const absl::Status& status, Job::State where) {
  CountEnding(status, StationOf(where), attend_.observer);
  Call call;
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = calls_.find(id); found != calls_.end()) {
      call = std::move(found->second);
      calls_.erase(found);
    }
  }
  if (call.job == nullptr) return;  // it came when the stream had ended
  if (call.deadline.has_value()) attend_.deadlines->Remove(*call.deadline);
  Answer answer{.id = id, .status = status};
  if (status.ok()) {
    attend_.observer->OnStage(Stage::kQueue, call.job->times().launched - call.job->times().queued);
    call.job->input().Release();
    answer.job = call.job;
    answer.ticket = std::move(call.ticket);
  } else {
    answer.retry_after = RetryAfter(status, attend_.scheduler->RetryAfter());
  }
  absl::MutexLock lock(&mutex_);
  if (broken_.has_value() && status.ok()) CountEnding(broken_->calls_end, Station::kSend, attend_.observer);
  Push(std::move(answer));
  Advance();
}

void ExtendStream::EndCall(const ExtendJobPtr& job, const absl::Status& status) {
  if (job->Finish(status)) Forget(environment_, *job);
}

void ExtendStream::OnWriteDone(bool ok) {
  std::optional<Answer> sent;  // let go of after the lock
  absl::MutexLock lock(&mutex_);
  sent.swap(sending_);
  write_failed_ = !ok;
  send_watch_->Sent();
  outgoing_.Clear();
  if (sent->job != nullptr && ok) {
    attend_.observer->OnStage(Stage::kSend, attend_.clock->Now() - sent->job->times().finished);
  } else if (sent->job != nullptr && !broken_.has_value()) {
    answers_.push_front(*std::exchange(sent, std::nullopt));  // counted when the stream breaks
  }
  Advance();
}

void ExtendStream::OnCancel() {
  const absl::Status reason = send_watch_->Reason();
  Break(reason, reason);
}

void ExtendStream::OnDone() {
  send_watch_->Close();
  registry_->Remove(this);
  absl::StatusCode code;
  {
    absl::MutexLock lock(&mutex_);
    code = code_;
  }
  attend_.observer->OnRpcHandled(RpcMethod::kExtendStream, code, attend_.clock->Now() - started_);
  const std::shared_ptr<ExtendStream> last = std::move(self_);
}

void ExtendStream::CloseWhenIdle() {
  absl::MutexLock lock(&mutex_);
  closing_ = true;
  Advance();
}

void ExtendStream::EndCalls(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    calls_end_ = status;
  }
  for (const ExtendJobPtr& job : OpenJobs()) EndCall(job, status);
}

void ExtendStream::Break(const absl::Status& calls_end, const absl::Status& stream_end) {
  std::deque<Answer> unsent;
  int64_t lost = 0;  // answers that were OK
  {
    absl::MutexLock lock(&mutex_);
    if (broken_.has_value() || finished_) return;
    broken_ = {calls_end, stream_end};
    unsent.swap(answers_);
    if (sending_.has_value() && sending_->job != nullptr) ++lost;
  }
  for (const Answer& answer : unsent) lost += answer.job != nullptr;
  for (; lost > 0; --lost) CountEnding(calls_end, Station::kSend, attend_.observer);
  unsent.clear();
  for (const ExtendJobPtr& job : OpenJobs()) EndCall(job, calls_end);
  absl::MutexLock lock(&mutex_);
  Advance();
}

ExtendJobPtr ExtendStream::FindJob(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  const auto found = calls_.find(id);
  return found == calls_.end() ? nullptr : found->second.job;
}

std::vector<ExtendJobPtr> ExtendStream::OpenJobs() {
  absl::MutexLock lock(&mutex_);
  std::vector<ExtendJobPtr> jobs;
  jobs.reserve(calls_.size());
  for (const auto& [id, call] : calls_) jobs.push_back(call.job);
  return jobs;
}

void ExtendStream::Push(Answer answer) {
  if (broken_.has_value() || finished_) return;
  answer_bytes_ += answer.bytes();
  answers_.push_back(std::move(answer));
}

void ExtendStream::ReadNext() {
  if (answer_bytes_ >= attend_.limits.max_outbox_bytes) {
    reading_paused_ = true;
    return;
  }
  reading_paused_ = false;
  StartRead(&incoming_);
}

void ExtendStream::Advance() {
  if (finished_ || sending_.has_value()) return;
  if (broken_.has_value()) return FinishWith(broken_->stream_end);
  if (write_failed_) return;
  if (!answers_.empty()) {
    sending_ = std::move(answers_.front());
    answers_.pop_front();
    answer_bytes_ -= sending_->bytes();
    outgoing_ = sending_->job != nullptr ? EncodeExtendStreamAnswer(sending_->id, sending_->job)
                                         : EncodeFailure(sending_->id, sending_->status, sending_->retry_after);
    send_watch_->Sending();
    StartWrite(&outgoing_);
    if (reading_paused_) ReadNext();
    return;
  }
  if (!calls_.empty()) return;
  if (half_closed_) return FinishWith(absl::OkStatus());
  if (closing_) FinishWith(absl::UnavailableError("the server is draining"));
}

void ExtendStream::FinishWith(const absl::Status& status) {
  finished_ = true;
  code_ = status.code();
  Finish(ToGrpcStatus(status));
}

}  // namespace tessera
