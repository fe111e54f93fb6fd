#include "client/cpp/tessera/stream_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/tessera/status_conversion.h"
#include "proto/wire/attend_encode.h"

namespace tessera {
namespace {

constexpr char kMethod[] = "/tessera.v1.AttentionService/AttendStream";

grpc::ByteBuffer Cancellation(uint64_t id) {
  v1::AttendStreamRequest message;
  message.set_id(id);
  message.set_cancel(true);
  return wire::EncodeAttendStreamRequest(message, {});
}

}  // namespace

std::shared_ptr<StreamSession> StreamSession::Open(grpc::GenericStub* stub, const std::string& tenant,
                                                   TimerQueue* timers, std::function<void()> on_gone) {
  std::shared_ptr<StreamSession> session(new StreamSession(timers, std::move(on_gone)));
  session->self_ = session;
  if (!tenant.empty()) session->context_.AddMetadata("tessera-tenant", tenant);
  stub->PrepareBidiStreamingCall(&session->context_, kMethod, {}, session.get());
  // Writes start on other threads than the reactor's; the hold keeps OnDone away until there can be no more of them.
  session->AddHold();
  session->StartRead(&session->incoming_);
  session->StartCall();
  return session;
}

uint64_t StreamSession::Register(std::shared_ptr<StreamCall> call, int part) {
  absl::MutexLock lock(&mutex_);
  if (stopped_ || retired_ || entries_.size() >= kMaxCalls) return 0;
  const uint64_t id = ++last_id_;
  entries_.emplace(id, Entry{std::move(call), part});
  senders_.push_back(id);
  return id;
}

void StreamSession::Pump() {
  bool half_close = false;
  while (true) {
    uint64_t id = 0;
    std::shared_ptr<StreamCall> call;
    int part = 0;
    {
      absl::MutexLock lock(&mutex_);
      if (writing_ || stopped_) return;
      if (!cancellations_.empty()) {
        outgoing_ = Cancellation(cancellations_.front());
        cancellations_.pop_front();
        writing_ = true;
        break;
      }
      if (senders_.empty()) {
        if (!retired_ || !entries_.empty() || half_closed_) return;
        half_close = half_closed_ = writing_ = true;
        break;
      }
      id = senders_.front();
      senders_.pop_front();
      const auto place = entries_.find(id);
      if (place == entries_.end()) continue;
      place->second.announced = true;
      call = place->second.call;
      part = place->second.part;
      writing_ = true;
    }
    std::optional<StreamCall::Outgoing> next = call->NextMessage(part, id);
    if (next.has_value()) outgoing_ = next->message;
    bool stopped = false;
    grpc::ByteBuffer unsent;  // destroyed without the lock, for its calls may hear that their memory is free
    {
      absl::MutexLock lock(&mutex_);
      if (next.has_value() && next->more) senders_.push_back(id);
      if (next.has_value() && !stopped_) break;
      outgoing_.Swap(&unsent);  // while it is this thread's
      writing_ = false;
      stopped = stopped_;
    }
    unsent.Clear();
    if (stopped) {
      StopOperations();
      return;
    }
  }
  if (half_close) {
    StartWritesDone();
  } else {
    StartWrite(&outgoing_);
  }
}

void StreamSession::OnWriteDone(bool ok) {
  outgoing_.Clear();  // lets go of the calls' memory
  WriterIdle(ok);
}

void StreamSession::OnWritesDoneDone(bool ok) { WriterIdle(ok); }

void StreamSession::WriterIdle(bool ok) {
  bool stopped = false;
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    stopped = stopped_;
  }
  if (stopped) {
    StopOperations();
  } else if (ok) {
    Pump();
  }
  // Otherwise the stream is broken, and the read that is going on will say so.
}

void StreamSession::OnReadDone(bool ok) {
  if (ok && Receive()) {
    StartRead(&incoming_);
    return;
  }
  if (ok) context_.TryCancel();
  StopOperations();
}

bool StreamSession::Receive() {
  absl::StatusOr<wire::DecodedAttendStreamResponse> message = wire::DecodeAttendStreamResponse(incoming_);
  incoming_.Clear();
  if (!message.ok()) {
    absl::MutexLock lock(&mutex_);
    breach_ = absl::InternalError(absl::StrCat("the server's answer cannot be read: ", message.status().message()));
    return false;
  }
  Entry entry;
  bool ended = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto place = entries_.find(message->id);
    if (place == entries_.end()) return true;  // withdrawn
    if (message->status.has_value()) {
      entry = std::move(place->second);
      entries_.erase(place);
    } else {
      entry = place->second;
    }
    ended = retired_ && entries_.empty();
  }
  entry.call->OnMessage(entry.part, *message);
  if (ended) SayGoodbye();
  return true;
}

void StreamSession::Withdraw(uint64_t id) {
  bool ended = false;
  Entry entry;
  {
    absl::MutexLock lock(&mutex_);
    const auto place = entries_.find(id);
    if (place == entries_.end()) return;
    entry = std::move(place->second);
    entries_.erase(place);
    if (entry.announced) cancellations_.push_back(id);
    ended = retired_ && entries_.empty();
  }
  if (ended) {
    SayGoodbye();
  } else {
    Pump();
  }
}

void StreamSession::Retire() {
  bool ended = false;
  {
    absl::MutexLock lock(&mutex_);
    ended = !retired_ && entries_.empty();
    retired_ = true;
  }
  if (ended) SayGoodbye();
}

void StreamSession::Break() { context_.TryCancel(); }

void StreamSession::SayGoodbye() {
  timers_->Schedule(absl::Now() + kGoodbyeTimeout, [weak = weak_from_this()] {
    if (const std::shared_ptr<StreamSession> session = weak.lock()) session->Break();
  });
  Pump();
}

void StreamSession::StopOperations() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    if (writing_ || hold_removed_) return;
    hold_removed_ = true;
  }
  RemoveHold();
}

void StreamSession::OnDone(const grpc::Status& status) {
  absl::flat_hash_map<uint64_t, Entry> entries;
  absl::Status lost;
  {
    absl::MutexLock lock(&mutex_);
    entries.swap(entries_);
    lost = breach_.ok() ? LostStatus(status) : breach_;
  }
  for (auto& [id, entry] : entries) entry.call->OnBroken(entry.part, lost);
  entries.clear();
  self_.reset();  // may destroy this
}

}  // namespace tessera
