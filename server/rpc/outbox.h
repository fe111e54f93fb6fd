// What a stream still has to send, cut into messages.
#ifndef TESSERA_SERVER_RPC_OUTBOX_H_
#define TESSERA_SERVER_RPC_OUTBOX_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/rpc/stream_call.h"

namespace tessera {

// Answers take turns, one message each, so that a small one does not wait for a large one to end. Messages are made
// when they are asked for and alias staging memory: what waits here costs nothing but the memory that its job holds.
// Not thread-safe.
class Outbox {
 public:
  struct Message {
    grpc::ByteBuffer buffer;
    // Of the answer that this message completes: its call, possibly the last reference to it, and, where that ended OK,
    // when it did.
    std::shared_ptr<StreamCall> completes;
    std::optional<absl::Time> ended;
  };

  explicit Outbox(int64_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  // `retry_after` goes with an error; 0: nothing.
  void Push(StreamAnswer answer, absl::Duration retry_after);
  // The next message. REQUIRES: !empty().
  Message Pop();
  // Takes everything that waits.
  std::vector<StreamAnswer> Clear();

  bool empty() const { return answers_.empty(); }
  // Payload still to be made into messages, plus a constant for each answer.
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr int64_t kAnswerBytes = 1024;

  struct Pending {
    StreamAnswer answer;
    absl::Duration retry_after;
    int64_t position = 0;  // sent so far, within the job's output
    bool begun = false;
  };

  const int64_t chunk_bytes_;
  int64_t bytes_ = 0;
  std::deque<Pending> answers_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_OUTBOX_H_
