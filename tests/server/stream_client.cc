#include "tests/server/stream_client.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace tessera::testing {

StreamClient::StreamClient(v1::AttentionService::Stub& stub, const std::string& tenant, absl::Duration timeout) {
  if (!tenant.empty()) context_.AddMetadata("tessera-tenant", tenant);
  if (timeout != absl::InfiniteDuration()) context_.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  stream_ = stub.AttendStream(&context_);
}

StreamClient::~StreamClient() {
  context_.TryCancel();
  if (!finished_) Finish();
}

void StreamClient::Send(const std::vector<v1::AttendStreamRequest>& messages) {
  for (const v1::AttendStreamRequest& message : messages) Send(message);
}

void StreamClient::SendCancel(uint64_t id) {
  v1::AttendStreamRequest message;
  message.set_id(id);
  message.set_cancel(true);
  Send(message);
}

StreamedAnswer StreamClient::Await(uint64_t id) {
  for (;;) {
    const auto found =
        std::find_if(answers_.begin(), answers_.end(), [&](const auto& answer) { return answer.first == id; });
    if (found != answers_.end()) {
      StreamedAnswer answer = std::move(found->second);
      answers_.erase(found);
      return answer;
    }
    if (!Take()) {
      StreamedAnswer none;
      none.status.set_code(static_cast<int>(grpc::StatusCode::UNKNOWN));
      return none;
    }
  }
}

std::optional<v1::AttendStreamResponse> StreamClient::Read() {
  v1::AttendStreamResponse message;
  if (!stream_->Read(&message)) return std::nullopt;
  return message;
}

bool StreamClient::Take() {
  const std::optional<v1::AttendStreamResponse> message = Read();
  if (!message.has_value()) return false;
  StreamedAnswer& answer = partial_[message->id()];
  if (message->has_result()) answer.result = message->result();
  if (answer.messages == 0) answer.begin = message->payload_offset();
  answer.contiguous &= message->payload().empty() || message->payload_offset() == answer.begin + answer.payload.size();
  answer.payload += message->payload();
  ++answer.messages;
  if (message->has_status()) {
    answer.status = message->status();
    answers_.emplace_back(message->id(), std::move(answer));
    partial_.erase(message->id());
  }
  return true;
}

grpc::Status StreamClient::Finish() {
  while (Take()) {
  }
  finished_ = true;
  return stream_->Finish();
}

}  // namespace tessera::testing
