// One ExtendStream RPC, with any number of calls on it.
#ifndef TESSERA_CLIENT_CPP_TESSERA_EXTEND_RPC_H_
#define TESSERA_CLIENT_CPP_TESSERA_EXTEND_RPC_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/tessera/extend_operation.h"
#include "client/cpp/tessera/queued_stream.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"

namespace tessera {

// Calls are sent in the order in which they are started. The server refuses calls beyond the number that a stream may
// have, while it does those that come later: so no more than that are with it at a time, and the others wait here.
// Thread-safe.
class ExtendRpc final : public QueuedStream<grpc::ByteBuffer, grpc::ByteBuffer>, public ExtendCarrier {
 public:
  // With the server at a time, whatever more it may allow.
  static constexpr size_t kMaxOpen = 200;

  static std::shared_ptr<ExtendRpc> Open(grpc::GenericStub* stub, const std::string& tenant);

  // Takes the call on. Where the stream is over by then, the call ends with UNAVAILABLE.
  void Start(const std::shared_ptr<ExtendOperation>& call) ABSL_LOCKS_EXCLUDED(mutex_);

  // The server takes `calls` at a time (Limits.max_stream_calls). Until this is known there is one.
  void Allow(size_t calls) ABSL_LOCKS_EXCLUDED(mutex_);

  // No call can go over it any more.
  bool over() const ABSL_LOCKS_EXCLUDED(mutex_);

  void Withdraw(uint64_t id) override ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveUp() override { Break(); }

 private:
  struct Waiting {
    uint64_t id = 0;
    std::shared_ptr<ExtendOperation> call;
    grpc::ByteBuffer message;
  };

  explicit ExtendRpc(const std::string& tenant) : QueuedStream(tenant) {}

  // Puts calls that wait into the outbox, as many as may be with the server; Flush follows, without the lock.
  void PushWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool OnMessage(grpc::ByteBuffer* message) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnEnd(const grpc::Status& status) override ABSL_LOCKS_EXCLUDED(mutex_);

  std::weak_ptr<ExtendRpc> weak_;
  std::atomic<uint64_t> last_id_ = 0;

  mutable absl::Mutex mutex_;  // taken before the stream's own
  absl::flat_hash_map<uint64_t, std::shared_ptr<ExtendOperation>> open_ ABSL_GUARDED_BY(mutex_);  // with the server
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t most_open_ ABSL_GUARDED_BY(mutex_) = 1;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status breach_ ABSL_GUARDED_BY(mutex_);  // how the server broke the protocol
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_EXTEND_RPC_H_
