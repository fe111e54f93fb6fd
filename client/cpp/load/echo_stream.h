// One long-lived stream to an echo server, with many calls in flight on it.
#ifndef TESSERA_CLIENT_CPP_LOAD_ECHO_STREAM_H_
#define TESSERA_CLIENT_CPP_LOAD_ECHO_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "grpcpp/channel.h"
#include "grpcpp/generic/generic_stub.h"

namespace tessera::load {

// Thread-safe.
class EchoStream : private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  using Done = std::function<void(absl::Status)>;

  explicit EchoStream(const std::shared_ptr<grpc::Channel>& channel);

  // Ends calls in flight with CANCELLED and waits for their callbacks.
  ~EchoStream() override;

  // Sends `payload` in chunks and calls `done` once `answer_bytes` bytes have come back, or the stream has failed. The
  // payload must stay valid until then.
  void Send(absl::Span<const std::byte> payload, uint64_t answer_bytes, Done done);

 private:
  struct Pending {
    uint64_t bytes_left = 0;
    Done done;
  };

  void OnWriteDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts a message in; returns the callback of the call that it completes, if any. Sets `*understood`.
  Done TakeMessage(bool* understood);

  grpc::ClientContext context_;
  grpc::GenericStub stub_;
  grpc::ByteBuffer message_;  // the outstanding read's

  absl::Mutex mutex_;
  std::deque<grpc::ByteBuffer> writes_ ABSL_GUARDED_BY(mutex_);  // the first is being written
  bool open_ ABSL_GUARDED_BY(mutex_) = true;                     // holds the reactor's hold
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, Pending> pending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_ECHO_STREAM_H_
