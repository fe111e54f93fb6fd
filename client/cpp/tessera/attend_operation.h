// One Attend call from start to end: its attempts, its deadline, its one callback.
#ifndef TESSERA_CLIENT_CPP_TESSERA_ATTEND_OPERATION_H_
#define TESSERA_CLIENT_CPP_TESSERA_ATTEND_OPERATION_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/tessera/attempt.h"
#include "client/cpp/tessera/attend_call.h"
#include "client/cpp/tessera/server_set.h"

namespace tessera {

// INVALID_ARGUMENT unless the spans of `call` fit each other and the header is small enough to be sent. The server
// checks the rest.
absl::Status CheckCall(const AttendCall& call);

// Each attempt goes to a server of the set, another one than the last where there is another. Thread-safe. At any time
// before the end it has an attempt, or waits for the next one; the callback runs once.
class AttendOperation final : public CallHandle::Cancellable, public std::enable_shared_from_this<AttendOperation> {
 public:
  // `on_gone` runs after the callback.
  AttendOperation(const ClientOptions* options, ServerSet* servers, TimerQueue* timers, AttendCall call,
                  AttendCallback callback, std::function<void()> on_gone);

  void Start() ABSL_LOCKS_EXCLUDED(mutex_);
  void Cancel() override;

 private:
  // Makes the operation end with `status`, which is not OK, unless it ends otherwise first.
  void Abort(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  void StartAttempt() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnAttemptEnd(AttemptEnd end) ABSL_LOCKS_EXCLUDED(mutex_);
  // Schedules another attempt where the policy and the deadline allow one.
  bool ScheduleRetry(const AttemptEnd& end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(absl::StatusOr<AttendReply> reply) ABSL_LOCKS_EXCLUDED(mutex_);

  const ClientOptions& options_;
  ServerSet* const servers_;
  TimerQueue* const timers_;
  const AttendCall call_;
  const absl::Time deadline_;
  AttendCallback callback_;
  const std::function<void()> on_gone_;

  absl::Mutex mutex_;
  std::shared_ptr<Attempt> attempt_ ABSL_GUARDED_BY(mutex_);
  ServerSet::Server* server_ ABSL_GUARDED_BY(mutex_) = nullptr;  // the attempt's, or the last one's
  int attempts_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status abort_ ABSL_GUARDED_BY(mutex_);  // not OK: no attempt is made any more
  std::optional<TimerQueue::Timer> backoff_timer_ ABSL_GUARDED_BY(mutex_);
  std::optional<TimerQueue::Timer> deadline_timer_ ABSL_GUARDED_BY(mutex_);
};

// How long to wait before attempt number `attempt` + 1, without the server's word on it.
absl::Duration Backoff(const RetryPolicy& policy, int attempt);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_ATTEND_OPERATION_H_
