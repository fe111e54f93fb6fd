// Cancels an RPC whose client does not read what is sent to it, so that its memory comes back.
#ifndef TESSERA_SERVER_RPC_SEND_WATCH_H_
#define TESSERA_SERVER_RPC_SEND_WATCH_H_

#include <atomic>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "server/rpc/attend_environment.h"
#include "server/rpc/deadline_watch.h"

namespace tessera {

// One RPC's. Owned by shared_ptr: the RPC's reactor and, while it looks, the deadline watch. Thread-safe. At most one
// message is under way at a time.
class SendWatch : public std::enable_shared_from_this<SendWatch> {
 public:
  // The environment outlives the watch; the context lives until Close.
  SendWatch(const AttendEnvironment& environment, grpc::CallbackServerContext* context);
  SendWatch(const SendWatch&) = delete;
  SendWatch& operator=(const SendWatch&) = delete;

  // A message is about to be handed to gRPC: unless Sent or Close follows within send_timeout, the RPC is cancelled.
  void Sending();
  void Sent();
  // The RPC is over: its context is not touched after this returns.
  void Close();

  // Why gRPC cancels the RPC: DEADLINE_EXCEEDED where this watch did it, or else what CancellationReason says.
  // REQUIRES: not closed.
  absl::Status Reason() const;

 private:
  void Arm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Look();

  const AttendEnvironment& environment_;
  grpc::CallbackServerContext* const context_;
  std::atomic<bool> timed_out_ = false;
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Time> since_ ABSL_GUARDED_BY(mutex_);  // a message is under way
  // One entry serves many messages: it looks again where the one under way is younger than it is.
  std::optional<DeadlineWatch::Token> token_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_SEND_WATCH_H_
