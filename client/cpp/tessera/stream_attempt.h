// A call as messages of AttendStream: one message where it is small, chunks where it is not, and spread over the
// streams of several connections where it is large.
//
// Each stream that the call uses is a part. The payload is cut into chunks that the parts' streams take as they become
// free, so that a slow connection holds up no other. Part i receives range i of the answer. The attempt is over when
// all parts are; the first that fails takes the others with it.
#ifndef TESSERA_CLIENT_CPP_TESSERA_STREAM_ATTEMPT_H_
#define TESSERA_CLIENT_CPP_TESSERA_STREAM_ATTEMPT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/tessera/answer_buffer.h"
#include "client/cpp/tessera/attempt.h"
#include "client/cpp/tessera/request_payload.h"
#include "client/cpp/tessera/stream_session.h"

namespace tessera {

class StreamAttempt final : public Attempt, public StreamCall, public std::enable_shared_from_this<StreamAttempt> {
 public:
  StreamAttempt(const AttemptContext& context, EndFn on_end);

  void Start() override;
  void Abort(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mutex_);

  std::optional<Outgoing> NextMessage(int part, uint64_t id) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnMessage(int part, const wire::DecodedAttendStreamResponse& message) override;
  void OnBroken(int part, const absl::Status& status) override;

 private:
  // One stream's share. `mutex` is held while an answer is copied, so that once a part is closed under it nothing is
  // written to the caller's memory any more. Order of locks: a part's mutex, then the attempt's.
  struct Part {
    absl::Mutex mutex;
    Connection* connection = nullptr;  // fixed from construction
    // Weak: the attempt may be waiting for the session to let go of its slices.
    std::weak_ptr<StreamSession> session ABSL_GUARDED_BY(mutex);
    uint64_t id ABSL_GUARDED_BY(mutex) = 0;
    bool closed ABSL_GUARDED_BY(mutex) = false;
    std::optional<v1::AttendResult> result ABSL_GUARDED_BY(mutex);
    int64_t next_offset ABSL_GUARDED_BY(mutex) = 0;  // of the answer, in bytes
    int64_t end_offset ABSL_GUARDED_BY(mutex) = 0;
    bool opened = false;  // the opening message has been made; touched only by NextMessage
  };

  // Takes one message's result and payload. An error is the server's breach of the protocol.
  absl::Status Consume(Part* part, const wire::DecodedAttendStreamResponse& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(part->mutex);
  // Counts one closed part, and with an error closes the others. The last one ends the attempt. The result counts where
  // the part is OK.
  void OnPartClosed(const absl::Status& status, absl::Duration retry_after, const v1::AttendResult& result)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Closes the parts that are still open, without waiting for the server.
  void CloseParts() ABSL_LOCKS_EXCLUDED(mutex_);
  // Reports the end once gRPC has let go of the caller's memory. A stream that still holds some of it after
  // ClientOptions::stall_timeout is closed, because its server has stopped reading.
  void End() ABSL_LOCKS_EXCLUDED(mutex_);

  const AttemptContext context_;
  const AttendCall& call_;
  const EndFn on_end_;
  RequestPayload payload_;
  const AnswerBuffer answer_;
  const std::vector<Connection*> connections_;
  std::string transfer_;                      // of a striped call; fixed from construction
  std::vector<std::unique_ptr<Part>> parts_;  // as are the parts, one a connection

  absl::Mutex mutex_;
  AttemptEnd end_ ABSL_GUARDED_BY(mutex_);  // status: the first part's error, or the abort's
  int open_parts_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t next_offset_ ABSL_GUARDED_BY(mutex_) = 0;  // of the payload, in bytes: what no part has taken yet
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_STREAM_ATTEMPT_H_
