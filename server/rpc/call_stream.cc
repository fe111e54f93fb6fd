#include "server/rpc/call_stream.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/caller.h"
#include "server/rpc/status.h"

namespace tessera {

CallStream::CallStream(RpcMethod method, const AttendEnvironment& environment, StreamRegistry* registry,
                       grpc::CallbackServerContext* context)
    : method_(method),
      environment_(environment),
      registry_(registry),
      context_(context),
      started_(environment.clock->Now()),
      send_watch_(std::make_shared<SendWatch>(environment, context)),
      tenant_(context->client_metadata(), environment.tokens) {
  environment_.observer->OnRpcStarted(method_);
}

void CallStream::Start(const std::shared_ptr<CallStream>& stream) {
  stream->self_ = stream;
  stream->registry_->Add(stream);
  absl::MutexLock lock(&stream->mutex_);
  if (stream->finished_) return;  // the server is draining
  if (const absl::Status& tenant = stream->tenant_.status(); tenant.ok()) {
    stream->ReadNext();
  } else {
    CountEnding(tenant, Station::kReceive, stream->environment_.observer);
    stream->FinishWith(tenant);
  }
}

absl::Status CallStream::MayOpen(size_t open_calls) const {
  if (static_cast<int64_t>(open_calls) < environment_.limits.max_stream_calls) return absl::OkStatus();
  return WithReason(absl::ResourceExhaustedError(
                        absl::StrCat("the stream has ", open_calls, " open calls, as many as one stream may have")),
                    RejectReason::kStreamCalls);
}

void CallStream::OnReadDone(bool ok) {
  if (!ok) {
    // A broken connection ends the reads, too; OnCancel deals with it.
    const bool whole = !context_->IsCancelled();
    {
      absl::MutexLock lock(&mutex_);
      half_closed_ = whole;
    }
    if (whole) ReadsDone();
    return Advance();
  }
  if (const absl::Status token = tenant_.Check(); !token.ok()) {
    incoming_.Clear();
    CountEnding(token, Station::kReceive, environment_.observer);
    return Break(StreamTenant::ComeAgain(), StreamTenant::ComeAgain());
  }
  const absl::Status status = HandleMessage(&incoming_);
  incoming_.Clear();
  if (!status.ok()) {
    CountEnding(status, Station::kReceive, environment_.observer);
    return Break(absl::CancelledError("a malformed message ended the stream"), status);
  }
  absl::MutexLock lock(&mutex_);
  if (!over()) ReadNext();
}

void CallStream::OnWriteDone(bool ok) {
  send_watch_->Sent();
  outgoing_.Clear();
  MessageDone(ok);
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    write_failed_ = !ok;
  }
  Advance();
}

void CallStream::OnCancel() {
  const absl::Status reason = send_watch_->Reason();
  Break(reason, reason);
}

void CallStream::OnDone() {
  send_watch_->Close();
  registry_->Remove(this);
  absl::StatusCode code;
  {
    absl::MutexLock lock(&mutex_);
    code = code_;
  }
  environment_.observer->OnRpcHandled(method_, code, environment_.clock->Now() - started_);
  const std::shared_ptr<CallStream> last = std::move(self_);
}

void CallStream::CloseWhenIdle() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  Advance();
}

void CallStream::EndCalls(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    calls_end_.Update(status);
  }
  EndOpenCalls(status);
}

void CallStream::Break(const absl::Status& calls_end, const absl::Status& stream_end) {
  {
    absl::MutexLock lock(&mutex_);
    if (over()) return;
    calls_end_ = calls_end;
    stream_end_ = stream_end;
  }
  Broken(calls_end);
  Advance();
}

void CallStream::ReadNext() {
  reading_paused_ = AnswersFull();
  if (!reading_paused_) StartRead(&incoming_);
}

void CallStream::Advance() {
  {
    absl::MutexLock lock(&mutex_);
    if (!TakeNext()) return;
  }
  StartWrite(&outgoing_);
}

bool CallStream::TakeNext() {
  if (finished_ || writing_) return false;
  if (stream_end_.has_value()) {
    FinishWith(*stream_end_);
    return false;
  }
  if (write_failed_) return false;
  if (HasAnswer()) {
    grpc::ByteBuffer message = TakeMessage();
    outgoing_.Swap(&message);
    writing_ = true;
    send_watch_->Sending();
    if (reading_paused_) ReadNext();
    return true;
  }
  if ((half_closed_ || closing_) && ReadyToEnd()) {
    FinishWith(half_closed_ ? absl::OkStatus() : absl::UnavailableError("the server is draining"));
  }
  return false;
}

void CallStream::FinishWith(const absl::Status& status) {
  finished_ = true;
  calls_end_.Update(absl::CancelledError("the stream has ended"));
  code_ = status.code();
  Finish(ToGrpcStatus(status));
}

}  // namespace tessera
