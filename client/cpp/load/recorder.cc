#include "client/cpp/load/recorder.h"

#include <algorithm>
#include <utility>

#include "absl/base/internal/raw_logging.h"

namespace tessera::load {

Recorder::Recorder(absl::Span<const CallShape> shapes, absl::Duration origin, absl::Duration interval)
    : shapes_(shapes.begin(), shapes.end()), origin_(origin), interval_length_(interval) {
  for (const CallShape& shape : shapes_) {
    costs_.push_back(
        {static_cast<double>(shape.request_bytes()), static_cast<double>(shape.response_bytes()), shape.UsefulFlops()});
  }
}

void Recorder::OpenWindow(absl::Duration from, absl::Duration until) {
  absl::MutexLock lock(&mutex_);
  ABSL_RAW_CHECK(!window_open_, "one window at a time");
  window_open_ = true;
  from_ = from;
  until_ = until;
  groups_.assign(shapes_.size(), GroupStats());
  arrived_.assign(shapes_.size(), Arrived());
  for (size_t i = 0; i < shapes_.size(); ++i) groups_[i].name = shapes_[i].name;
}

RunStats Recorder::CloseWindow(absl::Duration now) {
  absl::MutexLock lock(&mutex_);
  ABSL_RAW_CHECK(window_open_, "no window is open");
  window_open_ = false;
  RunStats stats;
  stats.window = std::max(std::min(until_, now) - from_, absl::ZeroDuration());
  const double seconds = absl::ToDoubleSeconds(stats.window);
  stats.shapes = std::move(groups_);
  stats.total.name = "all";
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const double rate = seconds > 0 ? static_cast<double>(arrived_[i].answers) / seconds : 0;
    const double computed = seconds > 0 ? static_cast<double>(arrived_[i].computed) / seconds : 0;
    GroupStats& group = stats.shapes[i];
    group.requests_per_second = rate;
    group.upload_bytes_per_second = rate * costs_[i].upload_bytes;
    group.download_bytes_per_second = rate * costs_[i].download_bytes;
    group.flops_per_second = computed * costs_[i].flops;
    stats.total.Merge(group);
  }
  return stats;
}

bool Recorder::Measured(absl::Duration due) const { return window_open_ && due >= from_; }

void Recorder::Record(const Sample& sample) {
  const int64_t latency = absl::ToInt64Nanoseconds(sample.finished - sample.due);
  const bool ok = sample.code == absl::StatusCode::kOk;
  absl::MutexLock lock(&mutex_);
  AdvanceTo(sample.finished);
  for (Interval* interval : {&interval_, &progress_}) {
    ++(ok ? interval->ok : interval->failed);
    if (ok) interval->latency.Record(latency);
  }
  if (ok && window_open_ && sample.finished >= from_ && sample.finished < until_) {
    ++arrived_[sample.shape].answers;
    arrived_[sample.shape].computed += sample.timing.known();
  }
  if (!Measured(sample.due)) return;

  GroupStats& group = groups_[sample.shape];
  group.send_lag.Record(absl::ToInt64Nanoseconds(sample.sent - sample.due));
  if (!ok) {
    ++group.failed;
    ++group.errors[sample.code];
    return;
  }
  ++group.ok;
  group.latency.Record(latency);
  if (!sample.timing.known()) return;
  const ServerTiming& timing = sample.timing;
  group.receive.Record(absl::ToInt64Nanoseconds(timing.receive));
  group.queue.Record(absl::ToInt64Nanoseconds(timing.queue));
  group.run.Record(absl::ToInt64Nanoseconds(timing.run));
  group.elsewhere.Record(
      absl::ToInt64Nanoseconds(sample.finished - sample.sent - timing.receive - timing.queue - timing.run));
  group.batch_requests.Record(timing.batch_requests);
}

void Recorder::RecordDrop(size_t shape, absl::Duration due) {
  absl::MutexLock lock(&mutex_);
  AdvanceTo(due);
  ++interval_.dropped;
  ++progress_.dropped;
  if (Measured(due)) ++groups_[shape].dropped;
}

Progress Recorder::TakeProgress() {
  absl::MutexLock lock(&mutex_);
  const Progress progress = {progress_.ok, progress_.failed, progress_.dropped, progress_.latency.Percentile(50),
                             progress_.latency.Percentile(99)};
  progress_.ok = progress_.failed = progress_.dropped = 0;
  progress_.latency.Clear();
  return progress;
}

void Recorder::AdvanceTo(absl::Duration now) {
  while (origin_ + interval_length_ * (timeline_.size() + 1) <= now) CloseInterval(interval_length_);
}

void Recorder::CloseInterval(absl::Duration length) {
  TimelinePoint& point = timeline_.emplace_back();
  point.begin = interval_length_ * (timeline_.size() - 1);
  point.length = length;
  point.ok = interval_.ok;
  point.failed = interval_.failed;
  point.dropped = interval_.dropped;
  point.p50_ns = interval_.latency.Percentile(50);
  point.p99_ns = interval_.latency.Percentile(99);
  point.max_ns = interval_.latency.max();
  interval_.ok = interval_.failed = interval_.dropped = 0;
  interval_.latency.Clear();
}

std::vector<TimelinePoint> Recorder::TakeTimeline(absl::Duration now) {
  absl::MutexLock lock(&mutex_);
  AdvanceTo(now);
  const absl::Duration rest = now - origin_ - interval_length_ * timeline_.size();
  if (rest > absl::ZeroDuration() && interval_.ok + interval_.failed + interval_.dropped > 0) CloseInterval(rest);
  return std::move(timeline_);
}

}  // namespace tessera::load
