#include "client/cpp/load/echo_stream.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "client/cpp/load/echo_message.h"

namespace tessera::load {

EchoStream::EchoStream(const std::shared_ptr<grpc::Channel>& channel) : stub_(channel) {
  context_.set_wait_for_ready(true);
  stub_.PrepareBidiStreamingCall(&context_, kEchoStreamMethod, grpc::StubOptions(), this);
  AddHold();  // lets Send start writes outside the reactor's own callbacks
  StartRead(&message_);
  StartCall();
}

EchoStream::~EchoStream() {
  context_.TryCancel();
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&ended_));
}

void EchoStream::Send(absl::Span<const std::byte> payload, uint64_t answer_bytes, Done done) {
  {
    absl::MutexLock lock(&mutex_);
    if (open_) {
      const uint64_t id = next_id_++;
      pending_[id] = {answer_bytes, std::move(done)};
      const bool idle = writes_.empty();
      size_t offset = 0;
      do {
        const absl::Span<const std::byte> chunk = payload.subspan(offset, kEchoChunkBytes);
        offset += chunk.size();
        writes_.push_back(EchoRequest({id, offset == payload.size() ? answer_bytes : kEchoMoreToCome}, chunk));
      } while (offset < payload.size());
      if (idle) WriteNext();
      return;
    }
  }
  done(absl::UnavailableError("echo stream: closed"));
}

void EchoStream::WriteNext() { StartWrite(&writes_.front()); }

void EchoStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  writes_.pop_front();
  if (!ok) writes_.clear();  // the read fails too, and ends the calls
  if (!writes_.empty()) WriteNext();
}

EchoStream::Done EchoStream::TakeMessage(bool* understood) {
  const std::optional<EchoHeader> header = ReadEchoHeader(message_);
  absl::MutexLock lock(&mutex_);
  const auto call = header.has_value() ? pending_.find(header->id) : pending_.end();
  *understood = call != pending_.end() && EchoPayloadBytes(message_) <= call->second.bytes_left;
  if (!*understood) return nullptr;
  call->second.bytes_left -= EchoPayloadBytes(message_);
  if (call->second.bytes_left > 0) return nullptr;
  Done done = std::move(call->second.done);
  pending_.erase(call);
  return done;
}

void EchoStream::OnReadDone(bool ok) {
  if (ok) {
    bool understood = false;
    const Done done = TakeMessage(&understood);
    message_.Clear();
    if (understood) {
      StartRead(&message_);
      if (done) done(absl::OkStatus());
      return;
    }
    context_.TryCancel();
  }
  absl::MutexLock lock(&mutex_);
  open_ = false;
  RemoveHold();
}

void EchoStream::OnDone(const grpc::Status& status) {
  absl::flat_hash_map<uint64_t, Pending> pending;
  {
    absl::MutexLock lock(&mutex_);
    pending.swap(pending_);
  }
  const absl::Status error =
      status.ok() ? absl::UnavailableError("echo stream: closed")
                  : absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  for (auto& [id, call] : pending) call.done(error);
  absl::MutexLock lock(&mutex_);
  ended_ = true;
}

}  // namespace tessera::load
