#include "server/rpc/outbox.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "proto/wire/attend_encode.h"
#include "server/rpc/attend_header.h"
#include "server/rpc/status.h"

namespace tessera {

void Outbox::Push(StreamAnswer answer, absl::Duration retry_after) {
  bytes_ += kAnswerBytes + (answer.end - answer.begin);
  const int64_t begin = answer.begin;
  answers_.push_back({std::move(answer), retry_after, begin});
}

Outbox::Message Outbox::Pop() {
  Pending pending = std::move(answers_.front());
  answers_.pop_front();
  const StreamAnswer& answer = pending.answer;
  v1::AttendStreamResponse message;
  message.set_id(answer.id);

  std::vector<grpc::Slice> payload;
  const int64_t length = std::min(chunk_bytes_, answer.end - pending.position);
  if (answer.status.ok()) {
    if (!pending.begun) *message.mutable_result() = ToAttendResult(answer.job->shape(), answer.job->times());
    message.set_payload_offset(static_cast<uint64_t>(pending.position));
    if (length > 0) {
      payload.push_back(wire::AliasSlice(
          absl::MakeConstSpan(answer.job->output().data() + pending.position, static_cast<size_t>(length)),
          answer.job));
    }
  }
  pending.begun = true;
  pending.position += length;
  bytes_ -= length;

  Message out;
  if (pending.position == answer.end) {
    *message.mutable_status() = ToCallStatus(answer.status, pending.retry_after);
    bytes_ -= kAnswerBytes;
    if (answer.status.ok()) out.ended = answer.job->times().finished;
    out.buffer = wire::EncodeAttendStreamResponse(message, payload);
    out.completes = std::move(pending.answer.call);
  } else {
    out.buffer = wire::EncodeAttendStreamResponse(message, payload);
    answers_.push_back(std::move(pending));
  }
  return out;
}

std::vector<StreamAnswer> Outbox::Clear() {
  std::vector<StreamAnswer> taken;
  taken.reserve(answers_.size());
  for (Pending& pending : answers_) taken.push_back(std::move(pending.answer));
  answers_.clear();
  bytes_ = 0;
  return taken;
}

}  // namespace tessera
