#include "server/rpc/attend_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/attend_header.h"
#include "server/rpc/caller.h"
#include "server/rpc/status.h"
#include "server/rpc/timeout.h"

namespace tessera {

AttendStream* AttendStream::Start(const AttendEnvironment& environment, StripeTable* stripes, StreamRegistry* registry,
                                  grpc::CallbackServerContext* context) {
  std::shared_ptr<AttendStream> stream(new AttendStream(environment, stripes, registry, context));
  stream->self_ = stream;
  registry->Add(stream);
  absl::MutexLock lock(&stream->mutex_);
  if (stream->finished_) return stream.get();  // the server is draining
  if (const absl::Status& tenant = stream->tenant_.status(); tenant.ok()) {
    stream->ReadNext();
  } else {
    CountEnding(tenant, Station::kReceive, environment.observer);
    stream->FinishWith(tenant);
  }
  return stream.get();
}

AttendStream::AttendStream(const AttendEnvironment& environment, StripeTable* stripes, StreamRegistry* registry,
                           grpc::CallbackServerContext* context)
    : environment_(environment),
      stripes_(stripes),
      registry_(registry),
      context_(context),
      started_(environment.clock->Now()),
      send_watch_(std::make_shared<SendWatch>(environment, context)),
      tenant_(context->client_metadata(), environment.tokens),
      outbox_(environment.limits.chunk_bytes) {
  environment_.observer->OnRpcStarted(RpcMethod::kAttendStream);
}

void AttendStream::OnReadDone(bool ok) {
  if (!ok) {
    {
      absl::MutexLock lock(&mutex_);
      half_closed_ = true;
    }
    // A broken connection ends the reads, too; OnCancel deals with it.
    if (!context_->IsCancelled()) {
      for (const std::shared_ptr<StreamCall>& call : OpenCalls()) call->SenderDone();
    }
    absl::MutexLock lock(&mutex_);
    return Advance();
  }
  if (const absl::Status token = tenant_.Check(); !token.ok()) {
    incoming_.Clear();
    CountEnding(token, Station::kReceive, environment_.observer);
    return Break(StreamTenant::ComeAgain(), StreamTenant::ComeAgain());
  }
  const absl::Status status = HandleMessage();
  incoming_.Clear();
  if (!status.ok()) {
    CountEnding(status, Station::kReceive, environment_.observer);
    return Break(absl::CancelledError("a malformed message ended the stream"), status);
  }
  absl::MutexLock lock(&mutex_);
  if (!finished_ && !broken_.has_value()) ReadNext();
}

absl::Status AttendStream::HandleMessage() {
  const absl::StatusOr<wire::DecodedAttendStreamRequest> message = wire::DecodeAttendStreamRequest(incoming_);
  if (!message.ok()) return message.status();
  const std::shared_ptr<StreamCall> call = FindCall(message->id);
  const bool opens = message->header.has_value();
  if (message->cancel) {
    const bool alone = !opens && !message->stripe.has_value() && message->payload.empty();
    const absl::Status status = alone ? absl::CancelledError("the caller cancelled")
                                      : absl::InvalidArgumentError("cancel: such a message carries nothing else");
    if (call != nullptr) {
      call->End(status);
    } else if (opens) {
      Refuse(message->id, status);
    }
    return absl::OkStatus();
  }
  if (message->stripe.has_value() && !opens) {
    const absl::Status status = absl::InvalidArgumentError("stripe: goes with a header, in a call's opening message");
    call != nullptr ? call->End(status) : Refuse(message->id, status);
    return absl::OkStatus();
  }
  if (call != nullptr && opens) {
    call->End(absl::InvalidArgumentError(absl::StrCat("id: ", message->id, " names a call that is open")));
    return absl::OkStatus();
  }
  // A chunk of a call that has ended while it was on its way.
  if (call == nullptr && !opens) return absl::OkStatus();

  const absl::StatusOr<ByteBudget::Charge> charge = environment_.admission->AdmitMessage(
      tenant_.name(), static_cast<int64_t>(incoming_.Length()), opens ? 0 : call->held_bytes());
  if (opens) {
    charge.ok() ? OpenCall(*message) : Refuse(message->id, charge.status());
  } else {
    charge.ok() ? call->Receive(message->payload_offset, message->payload) : call->End(charge.status());
  }
  return absl::OkStatus();
}

void AttendStream::OpenCall(const wire::DecodedAttendStreamRequest& message) {
  size_t open_calls;
  {
    absl::MutexLock lock(&mutex_);
    open_calls = calls_.size();
  }
  if (static_cast<int64_t>(open_calls) >= environment_.limits.max_stream_calls) {
    return Refuse(message.id,
                  WithReason(absl::ResourceExhaustedError(absl::StrCat("the stream has ", open_calls,
                                                                       " open calls, as many as one stream may have")),
                             RejectReason::kStreamCalls));
  }
  const bool striped = message.stripe.has_value();
  bool late = false;
  absl::StatusOr<std::shared_ptr<StreamCall>> call =
      striped ? stripes_->FindOrCreate(
                    tenant_.name(), *message.stripe, *message.header, [&] { return MakeCall(message); }, &late)
              : MakeCall(message);
  if (!call.ok()) return late ? AnswerLate(message.id, call.status()) : Refuse(message.id, call.status());
  bool broken;
  absl::Status calls_end;
  {
    absl::MutexLock lock(&mutex_);
    broken = broken_.has_value() || finished_;
    calls_end = calls_end_;
    if (!broken) calls_.emplace(message.id, *call);
  }
  if (broken) return (*call)->StreamBroke(this, absl::CancelledError("the stream ended"));
  if (!calls_end.ok()) (*call)->End(calls_end);  // Join says so
  // From here on the call may end, and be answered, at any time.
  const absl::Status joined = (*call)->Join(striped ? message.stripe->index() : 0, shared_from_this(), message.id);
  if (!joined.ok()) {
    {
      absl::MutexLock lock(&mutex_);
      calls_.erase(message.id);
    }
    (*call)->End(joined);
    return AnswerLate(message.id, joined);
  }
  if (striped) stripes_->DropIfJoined(tenant_.name(), *message.stripe, **call);
  (*call)->Receive(message.payload_offset, message.payload);
}

absl::StatusOr<std::shared_ptr<StreamCall>> AttendStream::MakeCall(const wire::DecodedAttendStreamRequest& message) {
  absl::StatusOr<AttendSpec> spec = ToAttendSpec(*message.header, environment_.limits.request);
  if (!spec.ok()) return spec.status();
  StreamCall::Opening opening;
  opening.spec = *std::move(spec);
  opening.tenant = tenant_.name();
  opening.deadline = DeadlineOf(*context_, *environment_.clock);
  opening.timeout = ToTimeout(message.timeout_us);
  opening.message_bytes = static_cast<int64_t>(incoming_.Length());
  if (message.stripe.has_value()) opening.streams = message.stripe->count();
  return StreamCall::Create(environment_, std::move(opening));
}

void AttendStream::Refuse(uint64_t id, const absl::Status& status) {
  CountEnding(status, Station::kReceive, environment_.observer);
  AnswerLate(id, status);
}

void AttendStream::AnswerLate(uint64_t id, const absl::Status& status) {
  StreamAnswer answer;
  answer.id = id;
  answer.status = status;
  TakeAnswer(std::move(answer));
}

void AttendStream::TakeAnswer(StreamAnswer answer) {
  const absl::Duration retry_after =
      answer.status.ok() ? absl::ZeroDuration() : RetryAfter(answer.status, environment_.scheduler->RetryAfter());
  absl::MutexLock lock(&mutex_);
  if (answer.call != nullptr) {
    const auto call = calls_.find(answer.id);
    if (call != calls_.end() && call->second == answer.call) calls_.erase(call);
  }
  if (broken_.has_value() && answer.status.ok()) answer.call->NotSent(broken_->calls_end);
  if (broken_.has_value() || finished_) return Advance();
  outbox_.Push(std::move(answer), retry_after);
  Advance();
}

void AttendStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  write_failed_ = !ok;
  send_watch_->Sent();
  if (ok) {
    if (outgoing_.completes != nullptr) {
      environment_.observer->OnStage(Stage::kSend, environment_.clock->Now() - outgoing_.ended);
    }
  }
  outgoing_.buffer.Clear();
  // An answer that was not sent is counted when the stream breaks.
  if (ok || broken_.has_value()) outgoing_.completes = nullptr;
  Advance();
}

void AttendStream::OnCancel() {
  const absl::Status reason = send_watch_->Reason();
  Break(reason, reason);
}

void AttendStream::OnDone() {
  send_watch_->Close();
  registry_->Remove(this);
  absl::StatusCode code;
  {
    absl::MutexLock lock(&mutex_);
    code = code_;
  }
  environment_.observer->OnRpcHandled(RpcMethod::kAttendStream, code, environment_.clock->Now() - started_);
  const std::shared_ptr<AttendStream> last = std::move(self_);
}

void AttendStream::CloseWhenIdle() {
  absl::MutexLock lock(&mutex_);
  closing_ = true;
  Advance();
}

void AttendStream::EndCalls(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    calls_end_ = status;
  }
  for (const std::shared_ptr<StreamCall>& call : OpenCalls()) call->End(status);
}

void AttendStream::Break(const absl::Status& calls_end, const absl::Status& stream_end) {
  std::vector<std::shared_ptr<StreamCall>> unsent;
  {
    absl::MutexLock lock(&mutex_);
    if (broken_.has_value() || finished_) return;
    broken_ = {calls_end, stream_end};
    unsent = outbox_.Clear();
    if (outgoing_.completes != nullptr) unsent.push_back(outgoing_.completes);
  }
  for (const std::shared_ptr<StreamCall>& call : unsent) call->NotSent(calls_end);
  unsent.clear();
  for (const std::shared_ptr<StreamCall>& call : OpenCalls()) call->StreamBroke(this, calls_end);
  absl::MutexLock lock(&mutex_);
  Advance();
}

std::vector<std::shared_ptr<StreamCall>> AttendStream::OpenCalls() {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<StreamCall>> calls;
  calls.reserve(calls_.size());
  for (const auto& [id, call] : calls_) calls.push_back(call);
  return calls;
}

std::shared_ptr<StreamCall> AttendStream::FindCall(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  const auto call = calls_.find(id);
  return call == calls_.end() ? nullptr : call->second;
}

void AttendStream::ReadNext() {
  if (outbox_.bytes() >= environment_.limits.max_outbox_bytes) {
    reading_paused_ = true;
    return;
  }
  reading_paused_ = false;
  StartRead(&incoming_);
}

void AttendStream::Advance() {
  if (finished_ || writing_) return;
  if (broken_.has_value()) return FinishWith(broken_->stream_end);
  if (write_failed_) return;
  if (!outbox_.empty()) {
    outgoing_ = outbox_.Pop();
    writing_ = true;
    send_watch_->Sending();
    StartWrite(&outgoing_.buffer);
    if (reading_paused_) ReadNext();
    return;
  }
  if (!calls_.empty()) return;
  if (half_closed_) return FinishWith(absl::OkStatus());
  if (closing_) FinishWith(absl::UnavailableError("the server is draining"));
}

void AttendStream::FinishWith(const absl::Status& status) {
  finished_ = true;
  code_ = status.code();
  Finish(ToGrpcStatus(status));
}

}  // namespace tessera
