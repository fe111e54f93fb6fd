#include "server/rpc/region_stream.h"

#include <utility>

#include "server/rpc/caller.h"
#include "server/rpc/status.h"
#include "tessera/v1/region.grpc.pb.h"  // how gRPC serializes the messages

namespace tessera {

RegionStream* RegionStream::Start(const AttendEnvironment& environment, RegionHost* host, StreamRegistry* registry,
                                  grpc::CallbackServerContext* context) {
  std::shared_ptr<RegionStream> stream(new RegionStream(environment, host, registry, context));
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

RegionStream::RegionStream(const AttendEnvironment& environment, RegionHost* host, StreamRegistry* registry,
                           grpc::CallbackServerContext* context)
    : environment_(environment),
      host_(host),
      registry_(registry),
      context_(context),
      local_(IsLocalPeer(context->peer())),
      started_(environment.clock->Now()),
      send_watch_(std::make_shared<SendWatch>(environment, context)),
      tenant_(context->client_metadata(), environment.tokens) {
  environment_.observer->OnRpcStarted(RpcMethod::kAttendInRegions);
}

void RegionStream::OnReadDone(bool ok) {
  if (!ok) {
    absl::MutexLock lock(&mutex_);
    // A broken connection ends the reads, too; OnCancel deals with it.
    half_closed_ = !context_->IsCancelled();
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
  if (!finished_ && broken_.ok()) ReadNext();
}

void RegionStream::PushStatus(uint64_t id, const absl::Status& status) {
  Answer answer;
  answer.message = Response(id, status);
  Push(std::move(answer));
}

void RegionStream::Refuse(uint64_t id, const absl::Status& status) {
  CountEnding(status, Station::kReceive, environment_.observer);
  PushStatus(id, status);
}

v1::AttendInRegionsResponse RegionStream::Response(uint64_t id, const absl::Status& status) const {
  const absl::Duration retry_after =
      status.ok() ? absl::ZeroDuration() : RetryAfter(status, environment_.scheduler->RetryAfter());
  v1::AttendInRegionsResponse response;
  response.set_id(id);
  *response.mutable_status() = ToCallStatus(status, retry_after);
  return response;
}

void RegionStream::Push(Answer answer) {
  absl::Status unsent;
  {
    absl::MutexLock lock(&mutex_);
    if (finished_ || !broken_.ok()) {
      unsent = answer.call == nullptr ? absl::OkStatus() : broken_;
    } else {
      outbox_.push_back(std::move(answer));
    }
    Advance();
  }
  CountEnding(unsent, Station::kSend, environment_.observer);
}

void RegionStream::OnWriteDone(bool ok) {
  std::optional<Answer> sent;  // destroyed after the lock
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  write_failed_ = !ok;
  send_watch_->Sent();
  outgoing_.Clear();
  // An answer that was not sent is counted when the stream breaks.
  if (ok || !broken_.ok()) sent.swap(answering_);
  if (ok && sent->call != nullptr) {
    environment_.observer->OnStage(Stage::kSend, environment_.clock->Now() - sent->finished);
  }
  Advance();
}

void RegionStream::OnCancel() {
  const absl::Status reason = send_watch_->Reason();
  Break(reason, reason);
}

void RegionStream::OnDone() {
  send_watch_->Close();
  registry_->Remove(this);
  absl::StatusCode code;
  {
    absl::MutexLock lock(&mutex_);
    code = code_;
  }
  environment_.observer->OnRpcHandled(RpcMethod::kAttendInRegions, code, environment_.clock->Now() - started_);
  const std::shared_ptr<RegionStream> last = std::move(self_);
}

void RegionStream::CloseWhenIdle() {
  absl::MutexLock lock(&mutex_);
  closing_when_idle_ = true;
  Advance();
}

void RegionStream::EndCalls(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    calls_end_ = status;
  }
  for (const std::shared_ptr<RegionCall>& call : OpenCalls()) call->End(status);
}

void RegionStream::Break(const absl::Status& calls_end, const absl::Status& stream_end) {
  std::deque<Answer> unsent;
  RegionTable regions;
  {
    absl::MutexLock lock(&mutex_);
    if (!broken_.ok() || finished_) return;
    broken_ = stream_end;
    unsent.swap(outbox_);
    if (answering_.has_value()) unsent.push_back(*answering_);
    regions.swap(regions_);
  }
  for (const Answer& answer : unsent) {
    if (answer.call != nullptr) CountEnding(calls_end, Station::kSend, environment_.observer);
  }
  unsent.clear();
  for (const std::shared_ptr<RegionCall>& call : OpenCalls()) call->End(calls_end);
  absl::MutexLock lock(&mutex_);
  Advance();
}

std::vector<std::shared_ptr<RegionCall>> RegionStream::OpenCalls() {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<RegionCall>> calls;
  calls.reserve(calls_.size());
  for (const auto& [id, call] : calls_) calls.push_back(call);
  return calls;
}

void RegionStream::ReadNext() {
  if (static_cast<int64_t>(outbox_.size()) >= environment_.limits.max_stream_calls) {
    reading_paused_ = true;
    return;
  }
  reading_paused_ = false;
  StartRead(&incoming_);
}

void RegionStream::Advance() {
  if (finished_ || writing_) return;
  if (!broken_.ok()) return FinishWith(broken_);
  if (write_failed_) return;
  if (!outbox_.empty()) {
    answering_ = std::move(outbox_.front());
    outbox_.pop_front();
    bool owned;
    grpc::SerializationTraits<v1::AttendInRegionsResponse>::Serialize(answering_->message, &outgoing_, &owned);
    writing_ = true;
    send_watch_->Sending();
    StartWrite(&outgoing_);
    if (reading_paused_) ReadNext();
    return;
  }
  if (!calls_.empty() || opening_ > 0) return;
  if (half_closed_) {
    regions_.clear();
    if (held_ == 0) FinishWith(absl::OkStatus());
  } else if (closing_when_idle_ && closing_.empty()) {
    regions_.clear();
    FinishWith(absl::UnavailableError("the server is draining"));
  }
}

void RegionStream::FinishWith(const absl::Status& status) {
  finished_ = true;
  code_ = status.code();
  Finish(ToGrpcStatus(status));
}

}  // namespace tessera
