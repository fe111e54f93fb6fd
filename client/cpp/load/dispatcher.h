// Sends the workload's next call to the target and records how it ended: the step that every runner repeats.
#ifndef TESSERA_CLIENT_CPP_LOAD_DISPATCHER_H_
#define TESSERA_CLIENT_CPP_LOAD_DISPATCHER_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/load/load_clock.h"
#include "client/cpp/load/recorder.h"
#include "client/cpp/load/target.h"
#include "client/cpp/load/workload.h"

namespace tessera::load {

// Thread-safe. Destroy it only when idle; what it points to must outlive it.
class Dispatcher {
 public:
  // Stops by itself after `give_up_after` failures in a row that no change of load would mend, such as UNAVAILABLE and
  // INVALID_ARGUMENT (never where it is 0), or once `interrupted` is set.
  Dispatcher(Workload* workload, Target* target, LoadClock* clock, Recorder* recorder, int64_t give_up_after,
             const std::atomic<bool>* interrupted);

  // Sends one call that was due at `due`. `then`, if set, runs after the answer is recorded, on the target's thread;
  // the dispatcher is not idle before it returns.
  void Send(absl::Duration due, std::function<void()> then = nullptr);

  // Sends unless `max_in_flight` calls are in flight; then it records a drop.
  void SendOrDrop(absl::Duration due, int64_t max_in_flight);

  // Waits until no call is in flight and every callback has returned.
  void AwaitIdle();

  // Whether runners should send no more.
  bool stopped() const { return gave_up_.load(std::memory_order_relaxed) || interrupted_->load(); }

  int64_t in_flight() const;

  // The failure that made it give up; OK where it did not.
  absl::Status give_up_status() const;

  LoadClock* clock() const { return clock_; }
  Recorder* recorder() const { return recorder_; }

 private:
  void SendCall(const Call& call, absl::Duration due, std::function<void()> then);
  // Takes an answered call out of the in-flight count, and counts its failure.
  void Settle(const absl::Status& status);

  Workload* const workload_;
  Target* const target_;
  LoadClock* const clock_;
  Recorder* const recorder_;
  const int64_t give_up_after_;
  const std::atomic<bool>* const interrupted_;
  std::atomic<bool> gave_up_{false};
  mutable absl::Mutex mutex_;
  int64_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;  // sent, not answered
  int64_t open_ ABSL_GUARDED_BY(mutex_) = 0;       // sent, callback not returned
  int64_t hopeless_ ABSL_GUARDED_BY(mutex_) = 0;   // failures in a row that load does not explain
  absl::Status give_up_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_DISPATCHER_H_
