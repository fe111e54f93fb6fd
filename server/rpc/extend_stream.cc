#include "server/rpc/extend_stream.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/wire/attend_encode.h"
#include "server/rpc/caller.h"
#include "server/rpc/extend_message.h"
#include "server/rpc/queue_extend.h"
#include "server/rpc/status.h"

namespace tessera {
namespace {

// A larger message is copied for long, and handled where it was read.
constexpr size_t kMostHandedBytes = size_t{64} << 10;

grpc::ByteBuffer EncodeFailure(uint64_t id, const absl::Status& status, absl::Duration retry_after) {
  v1::ExtendStreamResponse message;
  message.set_id(id);
  *message.mutable_status() = ToCallStatus(status, retry_after);
  return wire::EncodeExtendStreamResponse(message, {}, {});
}

}  // namespace

ExtendStream* ExtendStream::Start(const SequenceEnvironment& environment, StreamRegistry* registry,
                                  grpc::CallbackServerContext* context) {
  const std::shared_ptr<ExtendStream> stream(new ExtendStream(environment, registry, context));
  CallStream::Start(stream);
  return stream.get();
}

ExtendStream::ExtendStream(const SequenceEnvironment& environment, StreamRegistry* registry,
                           grpc::CallbackServerContext* context)
    : CallStream(RpcMethod::kExtendStream, environment.attend, registry, context),
      environment_(environment),
      attend_(environment.attend) {}

absl::Status ExtendStream::HandleMessage(grpc::ByteBuffer* bytes) {
  absl::Status status;
  const auto handle = [&] { status = Dispatch(*bytes); };
  Scheduler& scheduler = attend_.scheduler->of(last_device_);
  if (bytes->Length() > kMostHandedBytes || !scheduler.HandToLookout(handle)) handle();
  return status;
}

absl::Status ExtendStream::Dispatch(const grpc::ByteBuffer& bytes) {
  const absl::StatusOr<wire::DecodedExtendStreamRequest> message = wire::DecodeExtendStreamRequest(bytes);
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
    OpenCall(*message, static_cast<int64_t>(bytes.Length()));
  }
  return absl::OkStatus();
}

void ExtendStream::OpenCall(const wire::DecodedExtendStreamRequest& message, int64_t message_bytes) {
  size_t open_calls;
  {
    absl::MutexLock lock(&mutex_);
    open_calls = calls_.size();
  }
  if (const absl::Status status = MayOpen(open_calls); !status.ok()) return Refuse(message.id, status);
  const absl::Time arrived = attend_.clock->Now();
  const absl::StatusOr<ByteBudget::Charge> charge = attend_.admission->AdmitMessage(tenant().name(), message_bytes);
  if (!charge.ok()) return Refuse(message.id, charge.status());
  const absl::Duration timeout = ToTimeout(message.timeout_us);
  const absl::Time deadline = std::min(DeadlineOf(context(), *attend_.clock), arrived + timeout);
  absl::StatusOr<AdmittedExtend> admitted =
      AdmitExtend(environment_, tenant().name(), message, message_bytes, deadline,
                  [stream = Self(), id = message.id](const absl::Status& status, Job::State where) {
                    stream->TakeEnd(id, status, where);
                  });
  if (!admitted.ok()) return Refuse(message.id, admitted.status());
  const ExtendJobPtr job = std::move(admitted->job);
  last_device_ = job->cache().device();
  absl::Status end;
  {
    absl::MutexLock lock(&mutex_);
    end = calls_end();
    Call& call = calls_[message.id];
    call.job = job;
    call.ticket = std::move(admitted->ticket);
    // gRPC watches the stream's own deadline.
    if (timeout != absl::InfiniteDuration()) {
      call.deadline = attend_.deadlines->Add(deadline, [stream = std::weak_ptr(Self()), weak = std::weak_ptr(job)] {
        const std::shared_ptr<ExtendStream> self = stream.lock();
        const ExtendJobPtr late = weak.lock();
        if (self != nullptr && late != nullptr) {
          self->EndCall(late, absl::DeadlineExceededError("the call's timeout_us passed"));
        }
      });
    }
  }
  const absl::Time queue_time = attend_.clock->Now();
  job->SetArrival(arrived, queue_time);
  attend_.observer->OnStage(Stage::kReceive, queue_time - arrived);
  // From here on the call may end, and be answered, at any time.
  if (!end.ok()) return EndCall(job, end);
  QueueInTurn(environment_, job);
}

void ExtendStream::Refuse(uint64_t id, const absl::Status& status) {
  CountEnding(status, Station::kReceive, attend_.observer);
  const absl::Duration retry_after = RetryAfter(status, attend_.scheduler->RetryAfter());
  {
    absl::MutexLock lock(&mutex_);
    Push({.id = id, .status = status, .retry_after = retry_after});
  }
  Advance();
}

void ExtendStream::TakeEnd(uint64_t id, const absl::Status& status, Job::State where) {
  CountEnding(status, StationOf(where), attend_.observer);
  ExtendJobPtr job;
  std::optional<DeadlineWatch::Token> deadline;
  {
    absl::MutexLock lock(&mutex_);
    Call& call = calls_.find(id)->second;
    job = call.job;
    deadline = std::exchange(call.deadline, std::nullopt);
  }
  if (deadline.has_value()) attend_.deadlines->Remove(*deadline);
  Answer answer{.id = id, .status = status};
  if (status.ok()) {
    attend_.observer->OnStage(Stage::kQueue, job->times().launched - job->times().queued);
    job->input().Release();
    answer.job = std::move(job);
  } else {
    answer.retry_after = RetryAfter(status, attend_.scheduler->RetryAfter());
  }
  Call ended;  // let go of after the lock
  {
    // Open until its answer is there: else the stream could end between the two.
    absl::MutexLock lock(&mutex_);
    const auto found = calls_.find(id);
    ended = std::move(found->second);
    calls_.erase(found);
    if (status.ok()) answer.ticket = std::move(ended.ticket);
    if (over() && status.ok()) CountEnding(calls_end(), Station::kSend, attend_.observer);
    Push(std::move(answer));
  }
  Advance();
}

void ExtendStream::EndCall(const ExtendJobPtr& job, const absl::Status& status) {
  if (job->Finish(status)) Forget(environment_, *job);
}

void ExtendStream::MessageDone(bool sent) {
  std::optional<Answer> answer;
  {
    absl::MutexLock lock(&mutex_);
    // One that has not been sent stays for Broken to count, unless it has.
    if (sent || sending_->job == nullptr) answer.swap(sending_);
  }
  if (sent && answer->job != nullptr) {
    attend_.observer->OnStage(Stage::kSend, attend_.clock->Now() - answer->job->times().finished);
  }
}

void ExtendStream::EndOpenCalls(const absl::Status& status) {
  std::vector<ExtendJobPtr> jobs;
  {
    absl::MutexLock lock(&mutex_);
    jobs.reserve(calls_.size());
    for (const auto& [id, call] : calls_) jobs.push_back(call.job);
  }
  for (const ExtendJobPtr& job : jobs) EndCall(job, status);
}

void ExtendStream::Broken(const absl::Status& status) {
  std::deque<Answer> unsent;
  {
    absl::MutexLock lock(&mutex_);
    unsent.swap(answers_);
    if (sending_.has_value()) unsent.push_back({.job = std::exchange(sending_->job, nullptr)});
  }
  for (const Answer& answer : unsent) {
    if (answer.job != nullptr) CountEnding(status, Station::kSend, attend_.observer);
  }
  unsent.clear();
  EndOpenCalls(status);
}

ExtendJobPtr ExtendStream::FindJob(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  const auto found = calls_.find(id);
  return found == calls_.end() ? nullptr : found->second.job;
}

void ExtendStream::Push(Answer answer) {
  if (over()) return;
  answer_bytes_ += answer.bytes();
  answers_.push_back(std::move(answer));
}

bool ExtendStream::AnswersFull() const { return answer_bytes_ >= attend_.limits.max_outbox_bytes; }

grpc::ByteBuffer ExtendStream::TakeMessage() {
  sending_ = std::move(answers_.front());
  answers_.pop_front();
  answer_bytes_ -= sending_->bytes();
  return sending_->job != nullptr ? EncodeExtendStreamAnswer(sending_->id, sending_->job)
                                  : EncodeFailure(sending_->id, sending_->status, sending_->retry_after);
}

}  // namespace tessera
