// One call of an AttendStream: assembled from chunks, queued when its last byte is in, answered over the streams that
// carry it (one, or several for a striped call).
#ifndef TESSERA_SERVER_RPC_STREAM_CALL_H_
#define TESSERA_SERVER_RPC_STREAM_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/wire/payload_ref.h"
#include "server/request/attend_job.h"
#include "server/rpc/admission.h"
#include "server/rpc/attend_environment.h"
#include "server/rpc/attend_header.h"
#include "server/rpc/deadline_watch.h"
#include "server/rpc/payload_intervals.h"

namespace tessera {

class StreamCall;

// What a stream has to send for a call that has ended.
struct StreamAnswer {
  uint64_t id = 0;
  absl::Status status;
  std::shared_ptr<StreamCall> call;
  // Only where the status is OK: the stream sends bytes [begin, end) of the job's output.
  std::shared_ptr<AttendJob> job;
  int64_t begin = 0;
  int64_t end = 0;
};

// A stream, as its calls see it.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  // Takes a call's one answer. Called with no lock of the call held, on any thread.
  virtual void TakeAnswer(StreamAnswer answer) = 0;
};

// Owned by shared_ptr: the streams' tables until the answer, the answers until they are sent. Thread-safe.
//
// A call ends once, whoever comes first: its job's completion, a chunk that does not fit, a deadline, a cancellation, a
// stream that breaks. While chunks are being copied its memory stays, even after the end.
class StreamCall : public std::enable_shared_from_this<StreamCall> {
 public:
  struct Opening {
    AttendSpec spec;
    std::string tenant;
    absl::Time deadline = absl::InfiniteFuture();       // of the stream or the call, whichever is sooner
    absl::Duration timeout = absl::InfiniteDuration();  // the call's own, from now
    uint32_t streams = 1;
    int64_t message_bytes = 0;  // of the message that opens it
  };

  // Takes memory for a call. Fails as Admission::AdmitCall does.
  static absl::StatusOr<std::shared_ptr<StreamCall>> Create(const AttendEnvironment& environment, Opening opening);
  StreamCall(const StreamCall&) = delete;
  StreamCall& operator=(const StreamCall&) = delete;

  // Lets `sink` carry the answer's range `index`, under `id`. On an error the sink is not told of the call's end: the
  // call's own status where it has ended, INVALID_ARGUMENT where the index is taken or too large.
  absl::Status Join(uint32_t index, std::shared_ptr<AnswerSink> sink, uint64_t id);
  // Every stream has joined.
  bool joined() const;
  // Charged for the call itself.
  int64_t held_bytes() const { return held_bytes_; }

  // Copies a chunk, and queues the job when nothing is missing. A chunk that does not fit ends the call; one that comes
  // after the end is dropped. REQUIRES: the sender's Join succeeded.
  void Receive(uint64_t offset, const wire::PayloadRef& payload);
  // One of the streams will send no more.
  void SenderDone();
  // Ends the call unless it has ended.
  void End(const absl::Status& status);
  // Likewise, because the stream `sink` has gone. The other streams' caller has cancelled nothing: what is CANCELLED
  // here is UNAVAILABLE there.
  void StreamBroke(const AnswerSink* sink, const absl::Status& status);
  // A stream could not send its part of the answer. Counts the call, once for all streams.
  void NotSent(const absl::Status& status);

 private:
  struct Participant {
    std::shared_ptr<AnswerSink> sink;
    uint64_t id = 0;
  };

  StreamCall(const AttendEnvironment& environment, Opening opening, Admission::Grant grant);

  void WatchDeadline(absl::Time deadline);
  // Ends the call when no chunk has come for assembly_timeout, or the last one not within max_assembly_time.
  void WatchAssembly() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckAssembly();
  absl::Time AssemblyDeadline() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes and queues the job where everything has come; otherwise does nothing.
  void QueueIfComplete();
  // Answers all participants. Runs once.
  void Deliver(const absl::Status& status, Job::State where);
  // What streams hear of a call that ends so: another stream that breaks is no cancellation of theirs.
  absl::Status Told(const absl::Status& status) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives staging memory back if the call has ended before it became a job and nobody is copying.
  void ReleaseMemory() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AttendEnvironment& environment_;
  const absl::Time opened_;
  const std::string tenant_;
  const absl::Time deadline_;
  const int64_t held_bytes_;
  const int64_t output_bytes_;
  const Admission::Ticket ticket_;
  std::atomic<bool> not_sent_ = false;

  mutable absl::Mutex mutex_;
  std::optional<AttendSpec> spec_ ABSL_GUARDED_BY(mutex_);         // until the job takes it
  std::optional<Admission::Grant> grant_ ABSL_GUARDED_BY(mutex_);  // likewise
  PayloadIntervals received_ ABSL_GUARDED_BY(mutex_);
  std::vector<Participant> participants_ ABSL_GUARDED_BY(mutex_);  // by index; a null sink has not joined
  uint32_t missing_ ABSL_GUARDED_BY(mutex_);                       // streams that have not joined
  uint32_t senders_ ABSL_GUARDED_BY(mutex_);                       // streams that may still send
  int copying_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time last_chunk_ ABSL_GUARDED_BY(mutex_);
  const AnswerSink* broken_ ABSL_GUARDED_BY(mutex_) = nullptr;  // the first stream that has gone
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
  std::optional<DeadlineWatch::Token> deadline_token_ ABSL_GUARDED_BY(mutex_);
  std::optional<DeadlineWatch::Token> assembly_token_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<AttendJob> job_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_STREAM_CALL_H_
