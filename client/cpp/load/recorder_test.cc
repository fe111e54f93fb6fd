#include "client/cpp/load/recorder.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::load {
namespace {

absl::Duration At(double seconds) { return absl::Seconds(100) + absl::Microseconds(std::llround(seconds * 1e6)); }

class RecorderTest : public testing::Test {
 protected:
  Sample Ok(size_t shape, double due, double finished) {
    Sample sample;
    sample.shape = shape;
    sample.due = sample.sent = At(due);
    sample.finished = At(finished);
    return sample;
  }
  Sample Computed(size_t shape, double due, double finished) {
    Sample sample = Ok(shape, due, finished);
    sample.timing.batch_requests = 1;
    return sample;
  }
  Sample Failed(absl::StatusCode code, double due, double finished) {
    Sample sample = Ok(0, due, finished);
    sample.code = code;
    return sample;
  }

  const std::vector<CallShape> shapes_ = {*ParseCallShape("s=1,heads=1,d=8,dtype=fp32"),
                                          *ParseCallShape("s=2,heads=1,d=8,dtype=fp32")};
  Recorder recorder_{shapes_, At(0), absl::Seconds(1)};
};

TEST_F(RecorderTest, CountsWhatIsDueInTheWindowAndRatesWhatArrivesInIt) {
  recorder_.OpenWindow(At(1), At(3));
  recorder_.Record(Ok(0, 0.5, 0.9));  // warm-up
  recorder_.Record(Ok(0, 0.9, 1.1));  // due in the warm-up, arrives in the window
  recorder_.Record(Computed(0, 1.5, 1.7));
  recorder_.Record(Computed(1, 2.0, 2.5));
  recorder_.Record(Ok(1, 2.9, 3.4));  // due in the window, arrives after it
  const RunStats stats = recorder_.CloseWindow(At(3.4));
  EXPECT_EQ(stats.window, absl::Seconds(2));
  EXPECT_EQ(stats.total.ok, 3);
  EXPECT_EQ(stats.shapes[0].ok, 1);
  EXPECT_EQ(stats.shapes[1].ok, 2);
  EXPECT_EQ(stats.total.latency.count(), 3);
  EXPECT_DOUBLE_EQ(stats.shapes[0].requests_per_second, 1);
  EXPECT_DOUBLE_EQ(stats.shapes[1].requests_per_second, 0.5);
  EXPECT_DOUBLE_EQ(stats.total.requests_per_second, 1.5);
  EXPECT_DOUBLE_EQ(stats.total.upload_bytes_per_second, 1 * 96 + 0.5 * 192);
  EXPECT_DOUBLE_EQ(stats.total.download_bytes_per_second, 1 * 32 + 0.5 * 64);
  EXPECT_DOUBLE_EQ(stats.total.flops_per_second, 0.5 * 32 + 0.5 * 128);  // one of shape 0's two was not computed
}

TEST_F(RecorderTest, FailuresAndDropsAreCountedByCodeAndKeepOutOfLatency) {
  recorder_.OpenWindow(At(0), absl::InfiniteDuration());
  recorder_.Record(Ok(0, 0.1, 0.2));
  recorder_.Record(Failed(absl::StatusCode::kUnavailable, 0.1, 9));
  recorder_.Record(Failed(absl::StatusCode::kUnavailable, 0.1, 9));
  recorder_.Record(Failed(absl::StatusCode::kDeadlineExceeded, 0.1, 9));
  recorder_.RecordDrop(1, At(0.3));
  const RunStats stats = recorder_.CloseWindow(At(10));
  EXPECT_EQ(stats.window, absl::Seconds(10));
  EXPECT_EQ(stats.total.ok, 1);
  EXPECT_EQ(stats.total.failed, 3);
  EXPECT_EQ(stats.total.dropped, 1);
  EXPECT_EQ(stats.shapes[1].dropped, 1);
  EXPECT_EQ(stats.total.errors.at(absl::StatusCode::kUnavailable), 2);
  EXPECT_EQ(stats.total.errors.at(absl::StatusCode::kDeadlineExceeded), 1);
  EXPECT_EQ(absl::Nanoseconds(stats.total.latency.max()), absl::Milliseconds(100));
  EXPECT_DOUBLE_EQ(stats.total.error_fraction(), 0.8);
}

TEST_F(RecorderTest, ServerStagesAndTheRestAddUpToTheTimeSinceSending) {
  recorder_.OpenWindow(At(0), absl::InfiniteDuration());
  Sample sample = Ok(0, 0.1, 0.2);
  sample.sent = At(0.11);
  sample.timing = {absl::Milliseconds(5), absl::Milliseconds(30), absl::Milliseconds(15), 4};
  recorder_.Record(sample);
  recorder_.Record(Ok(0, 0.1, 0.2));  // a target that tells nothing
  const GroupStats total = recorder_.CloseWindow(At(1)).total;
  EXPECT_EQ(total.receive.count(), 1);
  EXPECT_EQ(absl::Nanoseconds(total.receive.max()), absl::Milliseconds(5));
  EXPECT_EQ(absl::Nanoseconds(total.queue.max()), absl::Milliseconds(30));
  EXPECT_EQ(absl::Nanoseconds(total.run.max()), absl::Milliseconds(15));
  EXPECT_EQ(absl::Nanoseconds(total.elsewhere.max()), absl::Milliseconds(90 - 50));
  EXPECT_EQ(absl::Nanoseconds(total.send_lag.max()), absl::Milliseconds(10));
  EXPECT_EQ(total.batch_requests.max(), 4);
}

TEST_F(RecorderTest, TimelineCutsByArrivalAndCoversEmptyIntervals) {
  recorder_.Record(Ok(0, 0.0, 0.5));
  recorder_.Record(Ok(0, 0.0, 0.999));
  recorder_.Record(Ok(0, 2.0, 3.25));
  recorder_.Record(Failed(absl::StatusCode::kUnavailable, 3, 3.3));
  recorder_.RecordDrop(0, At(3.4));
  const auto timeline = recorder_.TakeTimeline(At(3.5));
  ASSERT_EQ(timeline.size(), 4u);
  EXPECT_EQ(timeline[0].ok, 2);
  EXPECT_EQ(absl::Nanoseconds(timeline[0].max_ns), absl::Milliseconds(999));
  EXPECT_EQ(timeline[1].ok, 0);
  EXPECT_EQ(timeline[1].p99_ns, 0);
  EXPECT_EQ(timeline[2].ok, 0);
  EXPECT_EQ(timeline[3].begin, absl::Seconds(3));
  EXPECT_EQ(timeline[3].length, absl::Milliseconds(500));
  EXPECT_EQ(timeline[3].ok, 1);
  EXPECT_EQ(timeline[3].failed, 1);
  EXPECT_EQ(timeline[3].dropped, 1);
}

TEST_F(RecorderTest, ProgressForgetsWhatItTold) {
  recorder_.Record(Ok(0, 0.0, 0.5));
  recorder_.Record(Failed(absl::StatusCode::kUnavailable, 0, 0.5));
  const Progress first = recorder_.TakeProgress();
  EXPECT_EQ(first.ok, 1);
  EXPECT_EQ(first.failed, 1);
  EXPECT_EQ(absl::Nanoseconds(first.p50_ns), absl::Milliseconds(500));
  const Progress second = recorder_.TakeProgress();
  EXPECT_EQ(second.ok, 0);
  EXPECT_EQ(second.p50_ns, 0);
}

TEST_F(RecorderTest, SecondWindowStartsAfresh) {
  recorder_.OpenWindow(At(0), At(1));
  recorder_.Record(Ok(0, 0.5, 0.6));
  EXPECT_EQ(recorder_.CloseWindow(At(1)).total.ok, 1);
  recorder_.Record(Ok(0, 1.2, 1.3));  // between windows
  recorder_.OpenWindow(At(2), At(3));
  recorder_.Record(Ok(1, 2.5, 2.6));
  const RunStats stats = recorder_.CloseWindow(At(3));
  EXPECT_EQ(stats.total.ok, 1);
  EXPECT_EQ(stats.shapes[1].ok, 1);
}

}  // namespace
}  // namespace tessera::load
