#include "server/rpc/stream_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/make_job.h"
#include "server/rpc/status.h"

namespace tessera {
namespace {

absl::Time Earlier(absl::Time deadline, absl::Time now, absl::Duration timeout) {
  return std::min(deadline, now + timeout);
}

}  // namespace

absl::StatusOr<std::shared_ptr<StreamCall>> StreamCall::Create(const AttendEnvironment& environment, Opening opening) {
  absl::StatusOr<Admission::Grant> grant =
      environment.admission->AdmitCall(opening.tenant, opening.spec.shape, opening.message_bytes);
  if (!grant.ok()) return grant.status();
  const absl::Duration timeout = opening.timeout;
  std::shared_ptr<StreamCall> call(new StreamCall(environment, std::move(opening), *std::move(grant)));
  // gRPC watches the stream's own deadline.
  if (timeout != absl::InfiniteDuration()) call->WatchDeadline(call->deadline_);
  return call;
}

StreamCall::StreamCall(const AttendEnvironment& environment, Opening opening, Admission::Grant grant)
    : environment_(environment),
      opened_(environment.clock->Now()),
      tenant_(std::move(opening.tenant)),
      deadline_(Earlier(opening.deadline, opened_, opening.timeout)),
      held_bytes_(opening.spec.shape.held_bytes()),
      output_bytes_(opening.spec.shape.output_bytes()),
      ticket_(std::move(grant.ticket)),
      spec_(std::move(opening.spec)),
      grant_(std::move(grant)),
      received_(static_cast<uint64_t>(spec_->shape.input_bytes())),
      participants_(opening.streams),
      missing_(opening.streams),
      senders_(opening.streams),
      last_chunk_(opened_) {}

void StreamCall::WatchDeadline(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  deadline_token_ = environment_.deadlines->Add(deadline, [weak = weak_from_this()] {
    if (const std::shared_ptr<StreamCall> call = weak.lock()) {
      call->End(absl::DeadlineExceededError("the call's timeout_us passed"));
    }
  });
}

void StreamCall::WatchAssembly() {
  assembly_token_ = environment_.deadlines->Add(AssemblyDeadline(), [weak = weak_from_this()] {
    if (const std::shared_ptr<StreamCall> call = weak.lock()) call->CheckAssembly();
  });
}

absl::Time StreamCall::AssemblyDeadline() const {
  return std::min(last_chunk_ + environment_.limits.assembly_timeout, opened_ + environment_.limits.max_assembly_time);
}

void StreamCall::CheckAssembly() {
  const AttendLimits& limits = environment_.limits;
  absl::Status late;
  {
    absl::MutexLock lock(&mutex_);
    assembly_token_.reset();
    // Once every byte is there, it is for the stripe table to wait for streams.
    if (ended_.has_value() || received_.complete()) return;
    if (environment_.clock->Now() < AssemblyDeadline()) return WatchAssembly();
    late = absl::DeadlineExceededError(
        environment_.clock->Now() < last_chunk_ + limits.assembly_timeout
            ? absl::StrCat("payload: not all bytes came within ", absl::FormatDuration(limits.max_assembly_time))
            : absl::StrCat("payload: no chunk came for ", absl::FormatDuration(limits.assembly_timeout)));
  }
  End(late);
}

absl::Status StreamCall::Join(uint32_t index, std::shared_ptr<AnswerSink> sink, uint64_t id) {
  absl::MutexLock lock(&mutex_);
  if (ended_.has_value()) return *ended_;
  if (index >= participants_.size() || participants_[index].sink != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("stripe.index: ", index, " is taken or not below stripe.count, ", participants_.size()));
  }
  participants_[index] = {std::move(sink), id};
  --missing_;
  return absl::OkStatus();
}

bool StreamCall::joined() const {
  absl::MutexLock lock(&mutex_);
  return missing_ == 0;
}

void StreamCall::Receive(uint64_t offset, const wire::PayloadRef& payload) {
  absl::Status claimed;
  std::byte* destination = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (ended_.has_value()) return;
    claimed = job_ != nullptr && !payload.empty() ? absl::InvalidArgumentError("payload: all bytes came before")
                                                  : received_.Add(offset, payload.size());
    if (claimed.ok() && !payload.empty()) {
      destination = grant_->input.data() + offset;
      last_chunk_ = environment_.clock->Now();
      ++copying_;
    }
  }
  if (!claimed.ok()) return End(claimed);
  if (destination != nullptr) {
    payload.CopyTo(destination);
    environment_.observer->OnPayloadCopied(static_cast<int64_t>(payload.size()));
    absl::MutexLock lock(&mutex_);
    --copying_;
    ReleaseMemory();
  }
  QueueIfComplete();
}

void StreamCall::QueueIfComplete() {
  std::shared_ptr<AttendJob> job;
  absl::Time queue_time;
  {
    absl::MutexLock lock(&mutex_);
    if (ended_.has_value() || job_ != nullptr) return;
    if (!received_.complete() && !assembly_token_.has_value()) WatchAssembly();
    if (missing_ > 0 || copying_ > 0 || !received_.complete()) return;
    job_ = MakeAttendJob(*std::move(spec_), tenant_, deadline_, *std::move(grant_),
                         [call = weak_from_this()](const absl::Status& status, Job::State where) {
                           if (const auto self = call.lock()) self->Deliver(status, where);
                         });
    spec_.reset();
    grant_.reset();
    queue_time = environment_.clock->Now();
    job_->SetArrival(opened_, queue_time);
    job = job_;
  }
  environment_.observer->OnStage(Stage::kReceive, queue_time - opened_);
  const absl::Status queued = environment_.scheduler->Enqueue(job);
  if (!queued.ok()) job->Finish(WithReason(queued, RejectReason::kQueue));
}

void StreamCall::SenderDone() {
  {
    absl::MutexLock lock(&mutex_);
    --senders_;
    if (senders_ > 0 || ended_.has_value() || job_ != nullptr) return;
  }
  End(absl::InvalidArgumentError("payload: the stream was half-closed before all bytes had come"));
}

void StreamCall::End(const absl::Status& status) {
  std::shared_ptr<AttendJob> job;
  {
    absl::MutexLock lock(&mutex_);
    if (ended_.has_value()) return;
    job = job_;
    if (job == nullptr) ended_ = Told(status);
  }
  if (job == nullptr) return Deliver(status, Job::State::kCreated);
  if (job->Finish(status)) environment_.scheduler->Forget(*job);
}

void StreamCall::StreamBroke(const AnswerSink* sink, const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (ended_.has_value()) return;
    if (broken_ == nullptr) broken_ = sink;
  }
  End(status);
}

absl::Status StreamCall::Told(const absl::Status& status) const {
  return broken_ != nullptr && absl::IsCancelled(status) ? absl::UnavailableError("a stream of the call broke")
                                                         : status;
}

void StreamCall::NotSent(const absl::Status& status) {
  if (!not_sent_.exchange(true)) CountEnding(status, Station::kSend, environment_.observer);
}

void StreamCall::Deliver(const absl::Status& status, Job::State where) {
  std::vector<Participant> participants;
  std::shared_ptr<AttendJob> job;
  std::optional<DeadlineWatch::Token> deadline_token;
  std::optional<DeadlineWatch::Token> assembly_token;
  absl::Status told;
  const AnswerSink* broken;
  {
    absl::MutexLock lock(&mutex_);
    broken = broken_;
    told = Told(status);
    ended_ = told;
    participants.swap(participants_);
    deadline_token.swap(deadline_token_);
    assembly_token.swap(assembly_token_);
    job.swap(job_);
    ReleaseMemory();
  }
  if (deadline_token.has_value()) environment_.deadlines->Remove(*deadline_token);
  if (assembly_token.has_value()) environment_.deadlines->Remove(*assembly_token);
  CountEnding(status, StationOf(where), environment_.observer);
  if (status.ok()) {
    environment_.observer->OnStage(Stage::kQueue, job->times().launched - job->times().queued);
    job->input().Release();
  } else {
    job = nullptr;
  }
  const int64_t total = output_bytes_;
  const auto count = static_cast<int64_t>(participants.size());
  const int64_t range = (total + count - 1) / count;
  for (int64_t i = 0; i < count; ++i) {
    Participant& participant = participants[static_cast<size_t>(i)];
    if (participant.sink == nullptr) continue;
    StreamAnswer answer{participant.id, participant.sink.get() == broken ? status : told, shared_from_this(), job};
    if (status.ok()) {
      answer.begin = std::min(total, i * range);
      answer.end = std::min(total, (i + 1) * range);
    }
    participant.sink->TakeAnswer(std::move(answer));
  }
}

void StreamCall::ReleaseMemory() {
  if (!ended_.has_value() || copying_ > 0) return;
  spec_.reset();
  grant_.reset();
}

}  // namespace tessera
