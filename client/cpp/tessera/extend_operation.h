// One Extend call from start to end: its message, its deadline, its one callback.
#ifndef TESSERA_CLIENT_CPP_TESSERA_EXTEND_OPERATION_H_
#define TESSERA_CLIENT_CPP_TESSERA_EXTEND_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cpp/tessera/attend_call.h"
#include "client/cpp/tessera/extend_call.h"
#include "client/cpp/tessera/request_payload.h"
#include "client/cpp/tessera/timer_queue.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/wire/attend_decode.h"
#include "tessera/v1/sequence.pb.h"

namespace tessera {

// The header of a call, and what its tensors come to. INVALID_ARGUMENT unless they fit the sequences and each other.
// The server checks the rest.
absl::StatusOr<v1::ExtendHeader> MakeExtendHeader(const ExtendCall& call);

// Whoever carries the call. Of each operation, no longer than until its end.
class ExtendCarrier {
 public:
  virtual ~ExtendCarrier() = default;
  // The answer is not wanted any more: takes the call back, or tells the server. Does not wait.
  virtual void Withdraw(uint64_t id) = 0;
  // The network does not let go of the call's bytes.
  virtual void GiveUp() = 0;
};

// Thread-safe.
class ExtendOperation final : public CallHandle::Cancellable, public std::enable_shared_from_this<ExtendOperation> {
 public:
  // `on_gone` runs after the callback. REQUIRES: `header` is MakeExtendHeader's of `call`; the timers outlive it.
  ExtendOperation(const ExtendCall& call, v1::ExtendHeader header, absl::Time deadline, absl::Duration stall_timeout,
                  TimerQueue* timers, ExtendCallback callback, std::function<void()> on_gone);

  absl::Time deadline() const { return deadline_; }

  // The call as a message of ExtendStream, or of Extend. REQUIRES: one of them, once.
  grpc::ByteBuffer StreamMessage(uint64_t id);
  grpc::ByteBuffer UnaryMessage();

  // From here on the call can be withdrawn. Unless whoever carries it watches the deadline, the operation ends itself
  // when that has passed.
  void Carried(std::weak_ptr<ExtendCarrier> carrier, uint64_t id, bool deadline_watched) ABSL_LOCKS_EXCLUDED(mutex_);

  void Cancel() override ABSL_LOCKS_EXCLUDED(mutex_);

  // The answer, OK so far.
  void OnAnswer(const wire::DecodedExtendResponse& answer);
  // How the call failed, where nobody here has had a hand in it. CANCELLED becomes UNAVAILABLE unless Cancel was
  // called.
  void OnFailure(absl::Status status);
  // How the stream ended before there was an answer. CANCELLED where Cancel was called.
  void OnLost(const absl::Status& status);

 private:
  struct Output {
    absl::Span<std::byte> o;
    absl::Span<std::byte> lse;
  };

  // Checks an answer and copies its payload to where it belongs.
  absl::Status Take(const wire::DecodedExtendResponse& answer) const;
  void OnDeadline() ABSL_LOCKS_EXCLUDED(mutex_);
  bool cancelled() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the operation unless it has ended: the callback runs once the network has let go of the call's tensors.
  void End(absl::StatusOr<ExtendReply> reply) ABSL_LOCKS_EXCLUDED(mutex_);

  v1::ExtendHeader header_;  // until the message has been made
  const absl::Time deadline_;
  const absl::Duration stall_timeout_;
  TimerQueue* const timers_;
  std::vector<Output> outputs_;
  int64_t q_bytes_ = 0;   // of all steps
  int64_t kv_bytes_ = 0;  // of k, and of v
  size_t lse_bytes_ = 0;
  RequestPayload payload_;
  ExtendCallback callback_;
  const std::function<void()> on_gone_;

  absl::Mutex mutex_;  // held while an answer is copied, so that nothing is written once the operation has ended
  std::weak_ptr<ExtendCarrier> carrier_ ABSL_GUARDED_BY(mutex_);
  uint64_t id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<TimerQueue::Timer> deadline_timer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_EXTEND_OPERATION_H_
