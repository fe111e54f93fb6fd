#include "server/rpc/region_stream.h"

#include <utility>
#include <vector>

#include "server/rpc/caller.h"
#include "server/rpc/status.h"
#include "tessera/v1/region.grpc.pb.h"  // how gRPC serializes the messages

namespace tessera {

RegionStream* RegionStream::Start(const AttendEnvironment& environment, RegionHost* host, StreamRegistry* registry,
                                  grpc::CallbackServerContext* context) {
  const std::shared_ptr<RegionStream> stream(new RegionStream(environment, host, registry, context));
  CallStream::Start(stream);
  return stream.get();
}

RegionStream::RegionStream(const AttendEnvironment& environment, RegionHost* host, StreamRegistry* registry,
                           grpc::CallbackServerContext* context)
    : CallStream(RpcMethod::kAttendInRegions, environment, registry, context),
      environment_(environment),
      host_(host),
      local_(IsLocalPeer(context->peer())) {}

void RegionStream::Refuse(uint64_t id, const absl::Status& status) {
  CountEnding(status, Station::kReceive, environment_.observer);
  Answer answer;
  answer.message = Response(id, status);
  Push(std::move(answer));
}

v1::AttendInRegionsResponse RegionStream::Response(uint64_t id, const absl::Status& status) const {
  const absl::Duration retry_after =
      status.ok() ? absl::ZeroDuration() : RetryAfter(status, environment_.scheduler->RetryAfter());
  v1::AttendInRegionsResponse response;
  response.set_id(id);
  *response.mutable_status() = ToCallStatus(status, retry_after);
  return response;
}

void RegionStream::Push(Answer answer, std::optional<uint64_t> ended) {
  absl::Status lost;
  {
    absl::MutexLock lock(&mutex_);
    if (ended.has_value()) calls_.erase(*ended);
    if (!over()) {
      outbox_.push_back(std::move(answer));
    } else if (answer.call != nullptr) {
      lost = calls_end();
    }
  }
  Advance();
  CountEnding(lost, Station::kSend, environment_.observer);
}

void RegionStream::MessageDone(bool sent) {
  std::optional<Answer> answer;
  {
    absl::MutexLock lock(&mutex_);
    // One that has not been sent stays for Broken to count, unless it has.
    if (sent || sending_->call == nullptr) answer.swap(sending_);
  }
  if (sent && answer->call != nullptr) {
    environment_.observer->OnStage(Stage::kSend, environment_.clock->Now() - answer->finished);
  }
}

void RegionStream::EndOpenCalls(const absl::Status& status) {
  std::vector<std::shared_ptr<RegionCall>> calls;
  {
    absl::MutexLock lock(&mutex_);
    calls.reserve(calls_.size());
    for (const auto& [id, call] : calls_) calls.push_back(call);
  }
  for (const std::shared_ptr<RegionCall>& call : calls) call->End(status);
}

void RegionStream::Broken(const absl::Status& status) {
  std::deque<Answer> unsent;
  RegionTable regions;
  {
    absl::MutexLock lock(&mutex_);
    unsent.swap(outbox_);
    if (sending_.has_value()) unsent.push_back({{}, std::exchange(sending_->call, nullptr), {}});
    regions.swap(regions_);
  }
  for (const Answer& answer : unsent) {
    if (answer.call != nullptr) CountEnding(status, Station::kSend, environment_.observer);
  }
  unsent.clear();
  EndOpenCalls(status);
}

bool RegionStream::AnswersFull() const {
  return static_cast<int64_t>(outbox_.size()) >= environment_.limits.max_stream_calls;
}

grpc::ByteBuffer RegionStream::TakeMessage() {
  sending_ = std::move(outbox_.front());
  outbox_.pop_front();
  grpc::ByteBuffer message;
  bool owned;
  grpc::SerializationTraits<v1::AttendInRegionsResponse>::Serialize(sending_->message, &message, &owned);
  return message;
}

bool RegionStream::ReadyToEnd() {
  if (!calls_.empty() || opening_ > 0) return false;
  regions_.clear();
  return held_ == 0;
}

}  // namespace tessera
