#include "server/rpc/attend_stream.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/attend_header.h"
#include "server/rpc/caller.h"
#include "server/rpc/status.h"

namespace tessera {

AttendStream* AttendStream::Start(const AttendEnvironment& environment, StripeTable* stripes, StreamRegistry* registry,
                                  grpc::CallbackServerContext* context) {
  const std::shared_ptr<AttendStream> stream(new AttendStream(environment, stripes, registry, context));
  CallStream::Start(stream);
  return stream.get();
}

AttendStream::AttendStream(const AttendEnvironment& environment, StripeTable* stripes, StreamRegistry* registry,
                           grpc::CallbackServerContext* context)
    : CallStream(RpcMethod::kAttendStream, environment, registry, context),
      environment_(environment),
      stripes_(stripes),
      outbox_(environment.limits.chunk_bytes) {}

void AttendStream::ReadsDone() {
  for (const std::shared_ptr<StreamCall>& call : OpenCalls()) call->SenderDone();
}

absl::Status AttendStream::HandleMessage(grpc::ByteBuffer* bytes) {
  const absl::StatusOr<wire::DecodedAttendStreamRequest> message = wire::DecodeAttendStreamRequest(*bytes);
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

  const auto message_bytes = static_cast<int64_t>(bytes->Length());
  const absl::StatusOr<ByteBudget::Charge> charge =
      environment_.admission->AdmitMessage(tenant().name(), message_bytes, opens ? 0 : call->held_bytes());
  if (opens) {
    charge.ok() ? OpenCall(*message, message_bytes) : Refuse(message->id, charge.status());
  } else {
    charge.ok() ? call->Receive(message->payload_offset, message->payload) : call->End(charge.status());
  }
  return absl::OkStatus();
}

void AttendStream::OpenCall(const wire::DecodedAttendStreamRequest& message, int64_t message_bytes) {
  size_t open_calls;
  {
    absl::MutexLock lock(&mutex_);
    open_calls = calls_.size();
  }
  if (const absl::Status status = MayOpen(open_calls); !status.ok()) return Refuse(message.id, status);
  const bool striped = message.stripe.has_value();
  bool late = false;
  absl::StatusOr<std::shared_ptr<StreamCall>> call = striped
                                                         ? stripes_->FindOrCreate(
                                                               tenant().name(), *message.stripe, *message.header,
                                                               [&] { return MakeCall(message, message_bytes); }, &late)
                                                         : MakeCall(message, message_bytes);
  if (!call.ok()) return late ? AnswerLate(message.id, call.status()) : Refuse(message.id, call.status());
  absl::Status end;
  bool gone;
  {
    absl::MutexLock lock(&mutex_);
    end = calls_end();
    gone = over();
    if (!gone) calls_.emplace(message.id, *call);
  }
  if (gone) return (*call)->StreamBroke(this, end);
  if (!end.ok()) (*call)->End(end);  // Join says so
  // From here on the call may end, and be answered, at any time.
  const absl::Status joined = (*call)->Join(striped ? message.stripe->index() : 0,
                                            std::static_pointer_cast<AttendStream>(shared_from_this()), message.id);
  if (!joined.ok()) {
    (*call)->End(joined);
    StreamAnswer refusal;
    refusal.id = message.id;
    refusal.status = joined;
    refusal.call = *std::move(call);
    return TakeAnswer(std::move(refusal));
  }
  if (striped) stripes_->DropIfJoined(tenant().name(), *message.stripe, **call);
  (*call)->Receive(message.payload_offset, message.payload);
}

absl::StatusOr<std::shared_ptr<StreamCall>> AttendStream::MakeCall(const wire::DecodedAttendStreamRequest& message,
                                                                   int64_t message_bytes) {
  absl::StatusOr<AttendSpec> spec = ToAttendSpec(*message.header, environment_.limits.request);
  if (!spec.ok()) return spec.status();
  StreamCall::Opening opening;
  opening.spec = *std::move(spec);
  opening.tenant = tenant().name();
  opening.deadline = DeadlineOf(context(), *environment_.clock);
  opening.timeout = ToTimeout(message.timeout_us);
  opening.message_bytes = message_bytes;
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
  {
    absl::MutexLock lock(&mutex_);
    if (answer.call != nullptr) {
      const auto call = calls_.find(answer.id);
      if (call != calls_.end() && call->second == answer.call) calls_.erase(call);
    }
    if (!over()) {
      outbox_.Push(std::move(answer), retry_after);
    } else if (answer.status.ok()) {
      answer.call->NotSent(calls_end());
    }
  }
  Advance();
}

void AttendStream::MessageDone(bool sent) {
  // What has not been sent stays for Broken.
  if (!sent) return;
  std::shared_ptr<StreamCall> call;  // let go of after the lock: it may be the last reference
  absl::MutexLock lock(&mutex_);
  call = std::exchange(completes_, nullptr);
  if (ended_.has_value()) environment_.observer->OnStage(Stage::kSend, environment_.clock->Now() - *ended_);
  ended_.reset();
}

void AttendStream::EndOpenCalls(const absl::Status& status) {
  for (const std::shared_ptr<StreamCall>& call : OpenCalls()) call->End(status);
}

void AttendStream::Broken(const absl::Status& status) {
  std::vector<StreamAnswer> unsent;
  std::shared_ptr<StreamCall> half_sent;
  bool half_sent_was_ok = false;
  {
    absl::MutexLock lock(&mutex_);
    unsent = outbox_.Clear();
    half_sent = std::exchange(completes_, nullptr);
    half_sent_was_ok = std::exchange(ended_, std::nullopt).has_value();
  }
  for (const StreamAnswer& answer : unsent) {
    if (answer.status.ok()) answer.call->NotSent(status);
  }
  unsent.clear();
  if (half_sent_was_ok) half_sent->NotSent(status);
  half_sent.reset();
  for (const std::shared_ptr<StreamCall>& call : OpenCalls()) call->StreamBroke(this, status);
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

bool AttendStream::AnswersFull() const { return outbox_.bytes() >= environment_.limits.max_outbox_bytes; }

grpc::ByteBuffer AttendStream::TakeMessage() {
  Outbox::Message message = outbox_.Pop();
  completes_ = std::move(message.completes);
  ended_ = message.ended;
  return message.buffer;
}

}  // namespace tessera
