#include "server/request/device_job.h"

#include <memory>

#include "gtest/gtest.h"

namespace tessera {
namespace {

const absl::Time kReceived = absl::UnixEpoch() + absl::Seconds(1);
const absl::Time kQueued = absl::UnixEpoch() + absl::Seconds(2);
const DeviceJob::Run kRun = {absl::UnixEpoch() + absl::Seconds(3), absl::UnixEpoch() + absl::Seconds(5), 7};

class PlainJob final : public DeviceJob {
 public:
  PlainJob() : DeviceJob({}, DType::kFloat16, JobKind::kAttend) {}

  int ended = 0;
  int64_t batch_jobs_at_end = 0;

 private:
  void OnEnded(const absl::Status& status, State) override {
    ++ended;
    if (status.ok()) batch_jobs_at_end = times().batch_jobs;
  }
};

TEST(DeviceJob, TimesAreThereOnceItHasEndedWell) {
  PlainJob job;
  EXPECT_EQ(job.dtype(), DType::kFloat16);
  job.SetArrival(kReceived, kQueued);
  EXPECT_TRUE(job.Complete(kRun));
  EXPECT_EQ(job.batch_jobs_at_end, 7);
  EXPECT_EQ(job.times().received, kReceived);
  EXPECT_EQ(job.times().queued, kQueued);
  EXPECT_EQ(job.times().launched, kRun.launched);
  EXPECT_EQ(job.times().finished, kRun.finished);
  EXPECT_FALSE(job.Complete(kRun));
  EXPECT_EQ(job.ended, 1);
}

TEST(DeviceJobDeathTest, TimesOfAJobThatRunsMayNotBeRead) {
  PlainJob job;
  EXPECT_DEATH(job.times(), "ended with OK");
}

TEST(DeviceJobDeathTest, NorThoseOfOneThatWasCancelledBeforeItsRunWasOver) {
  PlainJob job;
  EXPECT_TRUE(job.Finish(absl::CancelledError("")));
  EXPECT_FALSE(job.Complete(kRun));
  EXPECT_EQ(job.ended, 1);
  EXPECT_DEATH(job.times(), "ended with OK");
}

}  // namespace
}  // namespace tessera
