// One AttendStream RPC on one connection, shared by any number of calls.
//
// Messages of the calls that have something to send are sent in turn, one a call, so that a large call does not hold up
// a small one. Answers go to their calls by id. A stream that breaks ends all its calls, and the session with it.
//
// A session that is no longer wanted half-closes its stream after its last call, so that for the server it ends well;
// where the server does not end it then, it is cancelled.
#ifndef TESSERA_CLIENT_CPP_TESSERA_STREAM_SESSION_H_
#define TESSERA_CLIENT_CPP_TESSERA_STREAM_SESSION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/tessera/timer_queue.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"
#include "proto/wire/attend_decode.h"

namespace tessera {

// A call as its streams see it; `part` tells the streams of a striped call apart. Called by the session without any
// lock, for one part by at most one sender and one receiver at a time.
class StreamCall {
 public:
  struct Outgoing {
    grpc::ByteBuffer message;
    bool more = false;  // to come on this stream, as far as the call knows
  };

  virtual ~StreamCall() = default;

  // The part's next message, under the id that it has on its stream; nothing where the call has no more to send.
  virtual std::optional<Outgoing> NextMessage(int part, uint64_t id) = 0;

  // An answer. One with a status is the last that the session passes on.
  virtual void OnMessage(int part, const wire::DecodedAttendStreamResponse& message) = 0;

  // The stream is gone, and with it whatever had not been answered.
  virtual void OnBroken(int part, const absl::Status& status) = 0;
};

// Thread-safe. Keeps itself alive until the RPC is over.
class StreamSession final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                            public std::enable_shared_from_this<StreamSession> {
 public:
  // Calls on it at a time. Servers bound them too, by default at 256 (Limits.max_stream_calls).
  static constexpr size_t kMaxCalls = 200;

  // How long the server may take to end a half-closed stream.
  static constexpr absl::Duration kGoodbyeTimeout = absl::Seconds(2);

  // Opens the stream. `on_gone` runs when the session has been destroyed, and with it its share of the channel. The
  // timers outlive it.
  static std::shared_ptr<StreamSession> Open(grpc::GenericStub* stub, const std::string& tenant, TimerQueue* timers,
                                             std::function<void()> on_gone);

  // Takes the call on, under the id returned; 0 where the session is full or takes none any more. Nothing is sent
  // before Pump.
  uint64_t Register(std::shared_ptr<StreamCall> call, int part) ABSL_LOCKS_EXCLUDED(mutex_);

  // Sends what there is to send. Must follow Register, without a lock that the calls of this session take.
  void Pump() ABSL_LOCKS_EXCLUDED(mutex_);

  // Forgets the call, and tells the server where it has heard of it. The call hears no more of the session, except for
  // what is being passed on right now.
  void Withdraw(uint64_t id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes no more calls, and ends with the last that it has.
  void Retire() ABSL_LOCKS_EXCLUDED(mutex_);

  // Cancels the stream, with whatever calls it has.
  void Break();

 private:
  struct Entry {
    std::shared_ptr<StreamCall> call;
    int part = 0;
    bool announced = false;  // a message of the call may have been sent
  };

  StreamSession(TimerQueue* timers, std::function<void()> on_gone) : timers_(timers), farewell_(std::move(on_gone)) {}

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnWritesDoneDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  // Passes one message on. False where the stream must be given up.
  bool Receive();
  // The last call of a retired session has gone: half-closes, and sees to it that the stream ends.
  void SayGoodbye() ABSL_LOCKS_EXCLUDED(mutex_);
  // The write that was going on is over.
  void WriterIdle(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  // No operation is to be started any more: lets gRPC finish, once the writer is idle.
  void StopOperations() ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls `on_gone` when it is destroyed.
  struct Farewell {
    explicit Farewell(std::function<void()> gone) : on_gone(std::move(gone)) {}
    Farewell(const Farewell&) = delete;
    Farewell& operator=(const Farewell&) = delete;
    ~Farewell() { on_gone(); }
    const std::function<void()> on_gone;
  };

  TimerQueue* const timers_;
  // Before the context, so that it is destroyed after it. The context shares the channel; were its share the last, the
  // channel would be destroyed on one of the threads that gRPC joins there.
  const Farewell farewell_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;  // touched only by the read that is going on
  grpc::ByteBuffer outgoing_;  // touched only by who has set writing_

  absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::deque<uint64_t> senders_
      ABSL_GUARDED_BY(mutex_);  // ids with something to send; withdrawn ones may be among them
  std::deque<uint64_t> cancellations_ ABSL_GUARDED_BY(mutex_);  // ids to tell the server of, ahead of everything else
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool retired_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;   // nothing is to be sent any more
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;       // reads have ended
  bool hold_removed_ ABSL_GUARDED_BY(mutex_) = false;  // gRPC may call OnDone
  absl::Status breach_ ABSL_GUARDED_BY(mutex_);        // how the server broke the protocol
  std::shared_ptr<StreamSession> self_;                // until OnDone
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_STREAM_SESSION_H_
