// One call whose tensors lie in regions.
#ifndef TESSERA_SERVER_RPC_REGION_CALL_H_
#define TESSERA_SERVER_RPC_REGION_CALL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/request/attend_job.h"
#include "server/rpc/admission.h"
#include "server/rpc/attend_environment.h"
#include "server/rpc/attend_header.h"
#include "server/rpc/region_tensors.h"
#include "tessera/v1/attention.pb.h"

namespace tessera {

// Owned by shared_ptr: the stream until the answer has been sent, the job while it lives. Thread-safe.
//
// A call ends once, as its job does. What its caller hears of that waits until nobody uses the tensors any more, which
// may be later: a call that is cancelled while it runs goes on writing to them for a while. Only UNAVAILABLE does not
// wait: a device that hangs may never let go.
class RegionCall : public std::enable_shared_from_this<RegionCall> {
 public:
  struct Opening {
    AttendSpec spec;
    ResolvedTensors tensors;
    std::string tenant;
    absl::Time received;
    absl::Time deadline = absl::InfiniteFuture();
    int64_t message_bytes = 0;  // of the message that opens it
  };
  struct Ending {
    absl::Status status;
    v1::AttendResult result;  // where that is OK
    absl::Time finished;      // likewise: when the outputs were there
  };
  // Runs once, on any thread, with no lock of the call's held. Must not block.
  using AnswerFn = std::function<void(const std::shared_ptr<RegionCall>& call, const Ending& ending)>;

  // Takes what the call needs beside its regions. Fails as Admission::AdmitRegionCall does.
  static absl::StatusOr<std::shared_ptr<RegionCall>> Create(const AttendEnvironment& environment, Opening opening,
                                                            AnswerFn answer);
  RegionCall(const RegionCall&) = delete;
  RegionCall& operator=(const RegionCall&) = delete;

  // Queues the job. Called once. The answer may come before this returns.
  void Enqueue();
  // Ends the call unless it has ended.
  void End(const absl::Status& status);

 private:
  class Lease;

  RegionCall(const AttendEnvironment& environment, const Opening& opening, Admission::Ticket ticket, AnswerFn answer);

  void OnJobEnded(const absl::Status& status, Job::State where);
  // The job is gone, or its end is all that its caller needs to know. Answers, the first time.
  void Answer();

  const AttendEnvironment& environment_;
  const absl::Time received_;
  const RegionMemory memory_;
  const Admission::Ticket ticket_;
  std::shared_ptr<AttendJob> queued_;  // from Create to Enqueue
  std::weak_ptr<AttendJob> job_;       // set once, by Create

  absl::Mutex mutex_;
  AnswerFn answer_ ABSL_GUARDED_BY(mutex_);  // null once it has run
  std::optional<Ending> ending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_REGION_CALL_H_
