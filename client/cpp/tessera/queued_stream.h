// A bidirectional RPC with an outbox: messages are sent in the order in which they are pushed, what comes is passed on
// as it comes, and the end is orderly.
#ifndef TESSERA_CLIENT_CPP_TESSERA_QUEUED_STREAM_H_
#define TESSERA_CLIENT_CPP_TESSERA_QUEUED_STREAM_H_

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"

namespace tessera {

// Messages are of types that swap in place, protobuf's or ByteBuffer. Thread-safe. Keeps itself alive until the RPC is
// over; whoever has opened it holds it until Close has returned, so that it is not destroyed by a thread of gRPC's, and
// the channel with it.
template <typename Request, typename Response>
class QueuedStream : public grpc::ClientBidiReactor<Request, Response> {
 public:
  QueuedStream(const QueuedStream&) = delete;
  QueuedStream& operator=(const QueuedStream&) = delete;

  // Half-closes once the outbox is empty, and does not wait. Nothing is pushed after it.
  void HalfClose() ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      closing_ = true;
    }
    Flush();
  }

  // Half-closes, gives the server until `deadline` to end the stream, and waits for the end. Not called from a
  // callback.
  void Close(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    HalfClose();
    if (!ended_->WaitForNotificationWithDeadline(deadline)) context_.TryCancel();
    ended_->WaitForNotification();
  }

  // Cancels the RPC.
  void Break() { context_.TryCancel(); }

  // The RPC is over, and nobody but the caller holds the stream on its account.
  bool ended() const { return ended_->HasBeenNotified(); }

 protected:
  explicit QueuedStream(const std::string& tenant) {
    if (!tenant.empty()) context_.AddMetadata("tessera-tenant", tenant);
  }

  grpc::ClientContext* context() { return &context_; }

  // Starts the RPC that has been prepared with context() and this reactor.
  void Begin(std::shared_ptr<QueuedStream> self) {
    self_ = std::move(self);
    // Writes start on other threads than the reactor's; the hold keeps OnDone away until there can be no more of them.
    this->AddHold();
    this->StartRead(&incoming_);
    this->StartCall();
  }

  // Puts a message behind the others, and leaves an empty one; it goes out by the next Flush, or sooner. False, and
  // nothing has happened, where the stream takes none any more.
  bool Push(Request* message) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (stopped_ || closing_) return false;
    outbox_.emplace_back().Swap(message);
    return true;
  }

  // Starts the next write, if there is anything to write and none under way. Not called with a lock held that another
  // thread may want: gRPC writes to the connection meanwhile.
  void Flush() ABSL_LOCKS_EXCLUDED(mutex_) {
    bool half_close = false;
    {
      absl::MutexLock lock(&mutex_);
      if (writing_ || stopped_ || half_closed_ || (outbox_.empty() && !closing_)) return;
      writing_ = true;
      if (outbox_.empty()) {
        half_close = half_closed_ = true;
      } else {
        outgoing_.Swap(&outbox_.front());
        outbox_.pop_front();
      }
    }
    if (half_close) {
      this->StartWritesDone();
    } else {
      this->StartWrite(&outgoing_);
    }
  }

  // Both are called with no lock held, one message at a time. False where the message cannot be read: the RPC is
  // cancelled then.
  virtual bool OnMessage(Response* message) = 0;
  // Last of all.
  virtual void OnEnd(const grpc::Status& status) = 0;

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return StopOperations();
    if (!OnMessage(&incoming_)) {
      context_.TryCancel();
      return StopOperations();
    }
    incoming_.Clear();
    this->StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    outgoing_.Clear();
    bool stopped = false;
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      stopped = stopped_;
    }
    if (stopped) {
      StopOperations();
    } else if (ok) {
      Flush();
    }
    // Otherwise the stream is broken, and the read that is going on will say so.
  }

  void OnWritesDoneDone(bool ok) override { OnWriteDone(ok); }

  // No operation is to be started any more: lets gRPC finish, once the writer is idle.
  void StopOperations() ABSL_LOCKS_EXCLUDED(mutex_) {
    std::deque<Request> unsent;
    {
      absl::MutexLock lock(&mutex_);
      stopped_ = true;
      unsent.swap(outbox_);
      if (writing_ || hold_removed_) return;
      hold_removed_ = true;
    }
    this->RemoveHold();
  }

  void OnDone(const grpc::Status& status) override {
    OnEnd(status);
    const std::shared_ptr<absl::Notification> ended = ended_;
    self_.reset();
    ended->Notify();
  }

  const std::shared_ptr<absl::Notification> ended_ = std::make_shared<absl::Notification>();
  grpc::ClientContext context_;
  Response incoming_;  // gRPC's while a read is under way

  absl::Mutex mutex_;
  Request outgoing_;  // of whoever has set writing_, then gRPC's, until it is over
  std::deque<Request> outbox_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;       // reads have ended
  bool hold_removed_ ABSL_GUARDED_BY(mutex_) = false;  // gRPC may call OnDone
  std::shared_ptr<QueuedStream> self_;                 // until OnDone
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_QUEUED_STREAM_H_
