#include "client/cpp/tessera/extend_rpc.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cpp/tessera/redirect.h"
#include "client/cpp/tessera/retry_after.h"
#include "client/cpp/tessera/status_conversion.h"
#include "proto/wire/attend_decode.h"
#include "proto/wire/attend_encode.h"

namespace tessera {
namespace {

constexpr char kMethod[] = "/tessera.v1.SequenceService/ExtendStream";

grpc::ByteBuffer Cancellation(uint64_t id) {
  v1::ExtendStreamRequest message;
  message.set_id(id);
  message.set_cancel(true);
  return wire::EncodeExtendStreamRequest(message, {}, {}, {});
}

}  // namespace

std::shared_ptr<ExtendRpc> ExtendRpc::Open(grpc::GenericStub* stub, const std::string& tenant) {
  std::shared_ptr<ExtendRpc> stream(new ExtendRpc(tenant));
  stream->weak_ = stream;
  stub->PrepareBidiStreamingCall(stream->context(), kMethod, {}, stream.get());
  stream->Begin(stream);
  return stream;
}

bool ExtendRpc::over() const {
  absl::MutexLock lock(&mutex_);
  return over_;
}

void ExtendRpc::Start(const std::shared_ptr<ExtendOperation>& call) {
  Waiting next = {++last_id_, call, {}};
  next.message = call->StreamMessage(next.id);
  call->Carried(weak_, next.id, /*deadline_watched=*/false);
  bool over;
  {
    absl::MutexLock lock(&mutex_);
    over = over_;
    if (!over) {
      waiting_.push_back(std::move(next));
      PushWaiting();
    }
  }
  if (over) return call->OnFailure(absl::UnavailableError("the stream has ended"));
  Flush();
}

void ExtendRpc::Allow(size_t calls) {
  {
    absl::MutexLock lock(&mutex_);
    most_open_ = std::clamp<size_t>(calls, 1, kMaxOpen);
    PushWaiting();
  }
  Flush();
}

void ExtendRpc::PushWaiting() {
  while (!waiting_.empty() && open_.size() < most_open_) {
    Waiting& next = waiting_.front();
    open_.emplace(next.id, std::move(next.call));
    Push(&next.message);  // where it fails, the end of the stream is near and takes the call with it
    waiting_.pop_front();
  }
}

void ExtendRpc::Withdraw(uint64_t id) {
  Waiting unsent;
  {
    absl::MutexLock lock(&mutex_);
    if (open_.contains(id)) {
      grpc::ByteBuffer message = Cancellation(id);
      Push(&message);
    } else {
      const auto place =
          std::find_if(waiting_.begin(), waiting_.end(), [id](const Waiting& waiting) { return waiting.id == id; });
      if (place == waiting_.end()) return;
      unsent.call = std::move(place->call);
      unsent.message.Swap(&place->message);
      waiting_.erase(place);
    }
  }
  if (unsent.call == nullptr) return Flush();
  unsent.message.Clear();
  unsent.call->OnFailure(absl::CancelledError("cancelled by the caller"));
}

bool ExtendRpc::OnMessage(grpc::ByteBuffer* message) {
  const absl::StatusOr<wire::DecodedExtendStreamResponse> answer = wire::DecodeExtendStreamResponse(*message);
  if (!answer.ok()) {
    absl::MutexLock lock(&mutex_);
    breach_ = absl::InternalError(absl::StrCat("the server's answer cannot be read: ", answer.status().message()));
    return false;
  }
  std::shared_ptr<ExtendOperation> call;
  {
    absl::MutexLock lock(&mutex_);
    const auto place = open_.find(answer->id);
    if (place == open_.end()) return true;
    call = std::move(place->second);
    open_.erase(place);
    PushWaiting();
  }
  Flush();
  const absl::Status status = answer->status.has_value() ? ToAbslStatus(*answer->status) : absl::OkStatus();
  if (status.ok()) {
    call->OnAnswer(*answer);
  } else {
    call->OnFailure(WithRedirect(WithRetryAfter(status, absl::Milliseconds(answer->status->retry_after_ms())),
                                 answer->status->redirect()));
  }
  return true;
}

void ExtendRpc::OnEnd(const grpc::Status& status) {
  absl::flat_hash_map<uint64_t, std::shared_ptr<ExtendOperation>> open;
  std::deque<Waiting> waiting;
  absl::Status lost;
  {
    absl::MutexLock lock(&mutex_);
    over_ = true;
    open.swap(open_);
    waiting.swap(waiting_);
    lost = breach_.ok() ? LostStatus(status) : breach_;
  }
  for (auto& [id, call] : open) call->OnLost(lost);
  for (Waiting& unsent : waiting) {
    unsent.message.Clear();
    unsent.call->OnLost(lost);
  }
}

}  // namespace tessera
