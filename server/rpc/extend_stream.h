// One ExtendStream: a message for each step, and one for each answer.
#ifndef TESSERA_SERVER_RPC_EXTEND_STREAM_H_
#define TESSERA_SERVER_RPC_EXTEND_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/wire/attend_decode.h"
#include "server/request/extend_job.h"
#include "server/rpc/admission.h"
#include "server/rpc/call_stream.h"
#include "server/rpc/deadline_watch.h"
#include "server/rpc/sequence_environment.h"
#include "server/rpc/stream_registry.h"

namespace tessera {

// No job is let go of under the lock: the end of one may start another, and so come back here.
class ExtendStream final : public CallStream {
 public:
  // All outlive the stream.
  static ExtendStream* Start(const SequenceEnvironment& environment, StreamRegistry* registry,
                             grpc::CallbackServerContext* context);

 private:
  struct Call {
    ExtendJobPtr job;
    Admission::Ticket ticket;
    std::optional<DeadlineWatch::Token> deadline;  // of its timeout_us
  };
  struct Answer {
    uint64_t id = 0;
    absl::Status status = {};
    absl::Duration retry_after = {};  // with an error; 0: nothing
    ExtendJobPtr job = nullptr;       // of an OK answer
    Admission::Ticket ticket = {};    // likewise
    // Payload, plus a constant.
    int64_t bytes() const { return 1024 + (job == nullptr ? 0 : job->shape().output_bytes()); }
  };

  ExtendStream(const SequenceEnvironment& environment, StreamRegistry* registry, grpc::CallbackServerContext* context);

  absl::Status HandleMessage(grpc::ByteBuffer* message) override;
  void MessageDone(bool sent) override;
  void EndOpenCalls(const absl::Status& status) override;
  void Broken(const absl::Status& status) override;
  bool HasAnswer() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !answers_.empty(); }
  bool AnswersFull() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  grpc::ByteBuffer TakeMessage() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ReadyToEnd() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_.empty(); }

  // HandleMessage, on its thread or on one for which that waits: the handler's is still one thread's at a time.
  absl::Status Dispatch(const grpc::ByteBuffer& message);
  void OpenCall(const wire::DecodedExtendStreamRequest& message, int64_t message_bytes);
  // Answers a call that never came to be, and counts it.
  void Refuse(uint64_t id, const absl::Status& status);
  // The job of the call `id` has ended.
  void TakeEnd(uint64_t id, const absl::Status& status, Job::State where);
  void EndCall(const ExtendJobPtr& job, const absl::Status& status);
  ExtendJobPtr FindJob(uint64_t id);
  void Push(Answer answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<ExtendStream> Self() { return std::static_pointer_cast<ExtendStream>(shared_from_this()); }

  const SequenceEnvironment& environment_;
  const AttendEnvironment& attend_;
  size_t last_device_ = 0;  // of the last call, most likely the next one's: the handler's

  absl::flat_hash_map<uint64_t, Call> calls_ ABSL_GUARDED_BY(mutex_);
  std::deque<Answer> answers_ ABSL_GUARDED_BY(mutex_);
  int64_t answer_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<Answer> sending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_EXTEND_STREAM_H_
