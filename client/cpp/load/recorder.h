// Turns ended requests into statistics: per shape, over time, and for the progress line.
#ifndef TESSERA_CLIENT_CPP_LOAD_RECORDER_H_
#define TESSERA_CLIENT_CPP_LOAD_RECORDER_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cpp/load/call_shape.h"
#include "client/cpp/load/run_stats.h"
#include "client/cpp/load/target.h"

namespace tessera::load {

// One request that was sent and has ended. Times are the load clock's.
struct Sample {
  size_t shape = 0;
  absl::Duration due;       // when the load wanted it sent
  absl::Duration sent;      // when it was
  absl::Duration finished;  // when its answer arrived
  absl::StatusCode code = absl::StatusCode::kOk;
  ServerTiming timing;
};

// Since the last look.
struct Progress {
  int64_t ok = 0;
  int64_t failed = 0;
  int64_t dropped = 0;
  int64_t p50_ns = 0;
  int64_t p99_ns = 0;
};

// A run is a timeline and, within it, one measured window at a time. Thread-safe, except that windows are opened and
// closed by one thread while no request is in flight.
class Recorder {
 public:
  // `origin` is the run's start on the load clock; timeline intervals have the length `interval`.
  Recorder(absl::Span<const CallShape> shapes, absl::Duration origin, absl::Duration interval);

  // Measures from `from` to `until`, which may be infinite. What is due before `from` is warm-up.
  // REQUIRES: no window is open.
  void OpenWindow(absl::Duration from, absl::Duration until);

  // Ends the window at its `until` or at `now`, whichever is first, and returns what it measured.
  // REQUIRES: a window is open.
  RunStats CloseWindow(absl::Duration now);

  void Record(const Sample& sample);

  // A request that was due and could not be sent.
  void RecordDrop(size_t shape, absl::Duration due);

  Progress TakeProgress();

  // Every interval up to `now`; the last may be short. Ends the run: nothing may be recorded after it.
  std::vector<TimelinePoint> TakeTimeline(absl::Duration now);

 private:
  struct Cost {
    double upload_bytes = 0;
    double download_bytes = 0;
    double flops = 0;
  };
  // OK answers within the window.
  struct Arrived {
    int64_t answers = 0;
    int64_t computed = 0;  // by a server that told its timing; an echo computes nothing
  };
  struct Interval {
    int64_t ok = 0;
    int64_t failed = 0;
    int64_t dropped = 0;
    Histogram latency;
  };

  // Closes the timeline's intervals that end at or before `now`.
  void AdvanceTo(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseInterval(absl::Duration length) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Measured(absl::Duration due) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::vector<CallShape> shapes_;
  const absl::Duration origin_;
  const absl::Duration interval_length_;
  std::vector<Cost> costs_;  // const after construction

  absl::Mutex mutex_;
  bool window_open_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration from_ ABSL_GUARDED_BY(mutex_);
  absl::Duration until_ ABSL_GUARDED_BY(mutex_);
  std::vector<GroupStats> groups_ ABSL_GUARDED_BY(mutex_);
  std::vector<Arrived> arrived_ ABSL_GUARDED_BY(mutex_);  // per shape
  Interval interval_ ABSL_GUARDED_BY(mutex_);
  Interval progress_ ABSL_GUARDED_BY(mutex_);
  std::vector<TimelinePoint> timeline_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_RECORDER_H_
