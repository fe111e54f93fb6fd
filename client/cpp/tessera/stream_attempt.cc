#include "client/cpp/tessera/stream_attempt.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/tessera/status_conversion.h"
#include "client/cpp/tessera/wire_timeout.h"
#include "proto/wire/attend_encode.h"
#include "proto/wire/stripe_limits.h"

namespace tessera {
namespace {

std::string RandomTransfer() {
  absl::BitGen random;
  std::string name(wire::kTransferBytes, '\0');
  for (char& byte : name) byte = static_cast<char>(absl::Uniform<uint8_t>(random));
  return name;
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Connections that a call is worth whose request or answer takes `bytes`.
int CountParts(int64_t bytes, const AttemptContext& context) {
  if (bytes < context.options->stripe_threshold_bytes) return 1;
  const int64_t chunks = std::max<int64_t>(1, CeilDivide(bytes, context.options->chunk_bytes));
  return static_cast<int>(std::min<int64_t>({chunks, context.pool->size(), wire::kMaxStripes}));
}

}  // namespace

StreamAttempt::StreamAttempt(const AttemptContext& context, EndFn on_end)
    : context_(context),
      call_(*context.call),
      on_end_(std::move(on_end)),
      payload_({call_.q, call_.k, call_.v}),
      answer_(call_.o, call_.lse),
      connections_(context.pool->Take(CountParts(std::max(payload_.size(), answer_.size()), context),
                                      payload_.size() + answer_.size())) {
  const int count = static_cast<int>(connections_.size());
  if (count > 1) transfer_ = RandomTransfer();
  absl::MutexLock attempt_lock(&mutex_);
  open_parts_ = count;
  end_.connections = count;
  const int64_t share = CeilDivide(answer_.size(), count);
  for (int i = 0; i < count; ++i) {
    Part& part = *parts_.emplace_back(std::make_unique<Part>());
    part.connection = connections_[static_cast<size_t>(i)];
    absl::MutexLock lock(&part.mutex);
    part.next_offset = std::min(i * share, answer_.size());
    part.end_offset = std::min(part.next_offset + share, answer_.size());
  }
}

void StreamAttempt::Start() {
  const std::shared_ptr<StreamAttempt> self = shared_from_this();  // the end may come at any time from here
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part* part = parts_[i].get();
    std::shared_ptr<StreamSession> session;
    {
      absl::MutexLock lock(&part->mutex);
      if (part->closed) continue;
      std::tie(session, part->id) = part->connection->Register(self, static_cast<int>(i));
      part->session = session;
    }
    session->Pump();
  }
}

std::optional<StreamCall::Outgoing> StreamAttempt::NextMessage(int part_index, uint64_t id) {
  Part& part = *parts_[static_cast<size_t>(part_index)];
  v1::AttendStreamRequest head;
  head.set_id(id);
  absl::MutexLock lock(&mutex_);
  if (open_parts_ == 0 || !end_.status.ok()) return std::nullopt;
  const int64_t offset = next_offset_;
  const int64_t length = std::min(context_.options->chunk_bytes, payload_.size() - offset);
  if (part.opened && length == 0) return std::nullopt;
  if (!part.opened) {
    part.opened = true;
    *head.mutable_header() = call_.header;
    head.set_timeout_us(MicrosecondsUntil(context_.deadline));
    if (parts_.size() > 1) {
      head.mutable_stripe()->set_transfer(transfer_);
      head.mutable_stripe()->set_index(static_cast<uint32_t>(part_index));
      head.mutable_stripe()->set_count(static_cast<uint32_t>(parts_.size()));
    }
  }
  if (length > 0) head.set_payload_offset(static_cast<uint64_t>(offset));
  next_offset_ += length;
  return Outgoing{wire::EncodeAttendStreamRequest(head, payload_.Slices(offset, length)),
                  next_offset_ < payload_.size()};
}

absl::Status StreamAttempt::Consume(Part* part, const wire::DecodedAttendStreamResponse& message) {
  if (message.result.has_value()) {
    if (absl::Status status = answer_.Check(*message.result); !status.ok()) return status;
    part->result = *message.result;
  }
  if (message.payload.empty()) return absl::OkStatus();
  if (!part->result.has_value()) return absl::InternalError("the server sends payload ahead of its result");
  if (message.payload_offset != static_cast<uint64_t>(part->next_offset) ||
      message.payload.size() > static_cast<size_t>(part->end_offset - part->next_offset)) {
    return absl::InternalError(absl::StrCat("the server sends ", message.payload.size(), " bytes at offset ",
                                            message.payload_offset, ", expected bytes ", part->next_offset, " to ",
                                            part->end_offset));
  }
  answer_.Write(part->next_offset, message.payload);
  part->next_offset += static_cast<int64_t>(message.payload.size());
  return absl::OkStatus();
}

void StreamAttempt::OnMessage(int part_index, const wire::DecodedAttendStreamResponse& message) {
  const std::shared_ptr<StreamAttempt> self = shared_from_this();
  Part* part = parts_[static_cast<size_t>(part_index)].get();
  absl::Status status;
  std::shared_ptr<StreamSession> draining;  // of a server that takes no more calls on this stream
  std::shared_ptr<StreamSession> broken;    // that still has the call
  uint64_t id = 0;
  v1::AttendResult result;
  {
    absl::MutexLock lock(&part->mutex);
    if (part->closed) return;
    status = Consume(part, message);
    if (status.ok()) {
      if (!message.status.has_value()) return;
      status = UnavailableIfCancelled(ToAbslStatus(*message.status));
      if (status.ok() && (!part->result.has_value() || part->next_offset != part->end_offset)) {
        status = absl::InternalError("the server ends its answer before all of it has come");
      }
      if (status.code() == absl::StatusCode::kUnavailable) draining = part->session.lock();
    } else if (!message.status.has_value()) {
      broken = part->session.lock();
      id = part->id;
    }
    part->closed = true;
    if (status.ok()) result = *part->result;
  }
  if (draining != nullptr) part->connection->Retire(draining);
  if (broken != nullptr) broken->Withdraw(id);
  const absl::Duration retry_after =
      message.status.has_value() ? absl::Milliseconds(message.status->retry_after_ms()) : absl::ZeroDuration();
  OnPartClosed(status, retry_after, result);
}

void StreamAttempt::OnBroken(int part_index, const absl::Status& status) {
  const std::shared_ptr<StreamAttempt> self = shared_from_this();
  Part* part = parts_[static_cast<size_t>(part_index)].get();
  {
    absl::MutexLock lock(&part->mutex);
    if (part->closed) return;
    part->closed = true;
  }
  OnPartClosed(status, absl::ZeroDuration(), v1::AttendResult());
}

void StreamAttempt::OnPartClosed(const absl::Status& status, absl::Duration retry_after,
                                 const v1::AttendResult& result) {
  bool last = false;
  {
    absl::MutexLock lock(&mutex_);
    last = --open_parts_ == 0;
    if (status.ok()) end_.result = result;
    if (!status.ok() && end_.status.ok()) {
      end_.status = status;
      end_.retry_after = retry_after;
      end_.retryable = IsRetryable(status);
    }
  }
  if (last) {
    End();
  } else if (!status.ok()) {
    CloseParts();
  }
}

void StreamAttempt::Abort(const absl::Status& status) {
  const std::shared_ptr<StreamAttempt> self = shared_from_this();
  {
    absl::MutexLock lock(&mutex_);
    if (open_parts_ == 0) return;
    if (end_.status.ok()) end_.status = status;
  }
  CloseParts();
}

void StreamAttempt::CloseParts() {
  int closed = 0;
  for (const std::unique_ptr<Part>& part : parts_) {
    std::shared_ptr<StreamSession> session;
    uint64_t id = 0;
    {
      absl::MutexLock lock(&part->mutex);
      if (part->closed) continue;
      part->closed = true;
      session = part->session.lock();
      id = part->id;
    }
    ++closed;
    if (session != nullptr) session->Withdraw(id);
  }
  if (closed == 0) return;
  bool last = false;
  {
    absl::MutexLock lock(&mutex_);
    open_parts_ -= closed;
    last = open_parts_ == 0;
  }
  if (last) End();
}

void StreamAttempt::End() {
  ConnectionPool::Return(connections_, payload_.size() + answer_.size());
  std::optional<TimerQueue::Timer> stall;
  if (payload_.aliases()) {
    std::vector<std::weak_ptr<StreamSession>> sessions;
    for (const std::unique_ptr<Part>& part : parts_) {
      absl::MutexLock lock(&part->mutex);
      sessions.push_back(part->session);
    }
    stall = context_.timers->Schedule(absl::Now() + context_.options->stall_timeout, [sessions = std::move(sessions)] {
      for (const std::weak_ptr<StreamSession>& weak : sessions) {
        if (const std::shared_ptr<StreamSession> session = weak.lock()) session->Break();
      }
    });
  }
  payload_.Release(
      [self = shared_from_this(), stall] {
        if (stall.has_value()) self->context_.timers->Cancel(*stall);
        AttemptEnd end;
        {
          absl::MutexLock lock(&self->mutex_);
          end = std::move(self->end_);
        }
        self->on_end_(std::move(end));
      },
      context_.timers);
}

std::shared_ptr<Attempt> MakeStreamAttempt(const AttemptContext& context, Attempt::EndFn on_end) {
  return std::make_shared<StreamAttempt>(context, std::move(on_end));
}

}  // namespace tessera
