// One ExtendStream: many steps at once over a pair of message flows, a message for each step and for each answer.
//
// Reading and writing are independent, and back pressure is by not reading, as for AttendStream. A malformed message
// ends the stream; a bad call only itself.
#ifndef TESSERA_SERVER_RPC_EXTEND_STREAM_H_
#define TESSERA_SERVER_RPC_EXTEND_STREAM_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "proto/wire/attend_decode.h"
#include "server/request/extend_job.h"
#include "server/rpc/admission.h"
#include "server/rpc/deadline_watch.h"
#include "server/rpc/send_watch.h"
#include "server/rpc/sequence_environment.h"
#include "server/rpc/stream_registry.h"
#include "server/rpc/stream_tenant.h"

namespace tessera {

// Holds itself from Start to OnDone; jobs that are still open hold it, too, and drop their answers into it until then.
// No job is let go of under the lock: the end of one may start another, and so come back here.
class ExtendStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                           public OpenStream,
                           public std::enable_shared_from_this<ExtendStream> {
 public:
  // All outlive the stream.
  static ExtendStream* Start(const SequenceEnvironment& environment, StreamRegistry* registry,
                             grpc::CallbackServerContext* context);

  // Ends the stream with UNAVAILABLE as soon as no call is open.
  void CloseWhenIdle() override;
  void EndCalls(const absl::Status& status) override;

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

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Fails only for a malformed message.
  absl::Status HandleMessage();
  void OpenCall(const wire::DecodedExtendStreamRequest& message);
  // Answers a call that never came to be, and counts it.
  void Refuse(uint64_t id, const absl::Status& status);
  // The job of the call `id` has ended.
  void TakeEnd(uint64_t id, const absl::Status& status, Job::State where);
  void EndCall(const ExtendJobPtr& job, const absl::Status& status);
  ExtendJobPtr FindJob(uint64_t id);
  std::vector<ExtendJobPtr> OpenJobs();
  // Ends every open call, and every answer that has not been sent, with `calls_end`, and the stream with `stream_end`.
  void Break(const absl::Status& calls_end, const absl::Status& stream_end);

  void Push(Answer answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts whatever may be started: the next write, the next read, the end.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishWith(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SequenceEnvironment& environment_;
  const AttendEnvironment& attend_;
  StreamRegistry* const registry_;
  grpc::CallbackServerContext* const context_;
  const absl::Time started_;
  const std::shared_ptr<SendWatch> send_watch_;
  StreamTenant tenant_;                 // the handler's
  std::shared_ptr<ExtendStream> self_;  // until OnDone
  grpc::ByteBuffer incoming_;           // gRPC's while a read is under way, else the handler's

  absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, Call> calls_ ABSL_GUARDED_BY(mutex_);
  std::deque<Answer> answers_ ABSL_GUARDED_BY(mutex_);
  int64_t answer_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::ByteBuffer outgoing_ ABSL_GUARDED_BY(mutex_);  // gRPC's while there is `sending_`
  std::optional<Answer> sending_ ABSL_GUARDED_BY(mutex_);
  bool write_failed_ ABSL_GUARDED_BY(mutex_) = false;  // nothing can be sent any more; OnCancel follows
  bool reading_paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;  // the client sends no more
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;      // CloseWhenIdle
  absl::Status calls_end_ ABSL_GUARDED_BY(mutex_);    // not OK: EndCalls
  struct Breaking {
    absl::Status calls_end;
    absl::Status stream_end;
  };
  std::optional<Breaking> broken_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;  // Finish has been called: gRPC takes nothing more
  absl::StatusCode code_ ABSL_GUARDED_BY(mutex_) = absl::StatusCode::kOk;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_EXTEND_STREAM_H_
