// What nobody wants any more is stopped while it runs.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/engine/engine.h"
#include "server/engine/engine_test_fixture.h"

namespace tessera {
namespace {

using Batch = RecordingObserver::Batch;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint32_t kEndless = CopyingDevice::kEndless;

class EngineStopTest : public EngineTest {
 protected:
  // Calls of these lengths that share batch 2.
  std::vector<TestCallPtr> SendTogether(const std::vector<uint32_t>& tokens) {
    Send(1);
    device_->AwaitBatch(1);
    std::vector<TestCallPtr> calls;
    for (const uint32_t each : tokens) calls.push_back(Send(each));
    device_->Release(1);
    device_->AwaitBatch(2);
    return calls;
  }
};

TEST_F(EngineStopTest, BatchRunsUntilItsLastJobIsCancelled) {
  Start("run@1=hang");
  const std::vector<TestCallPtr> calls = SendTogether({kEndless, 2});
  Look();
  EXPECT_TRUE(calls[0]->job->Finish(absl::CancelledError("by the first caller")));
  Look(3);
  EXPECT_EQ(observer_.batches().size(), 1u) << "one of the two is still wanted";
  EXPECT_TRUE(calls[1]->job->Finish(absl::CancelledError("by the second caller")));
  Look();
  EXPECT_TRUE(Send(3)->Await().ok()) << "the slot is free again";
  engine_.reset();
  EXPECT_EQ(calls[0]->status.message(), "by the first caller");
  EXPECT_EQ(calls[1]->status.message(), "by the second caller");
  EXPECT_THAT(observer_.batches(), ElementsAre(Batch{1, 1, true}, Batch{2, kEndless + 2, false}, Batch{1, 3, true}));
  EXPECT_THAT(observer_.drops(), IsEmpty()) << "they were launched";
}

TEST_F(EngineStopTest, BatchIsStoppedWhenItsJobsExpire) {
  Start("");
  const TestCallPtr call = Send(kEndless, absl::Seconds(1));
  device_->AwaitBatch(1);
  Advance(absl::Seconds(1));
  EXPECT_EQ(call->Await().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(call->where, Job::State::kRunning);
  EXPECT_TRUE(Send(1)->Await().ok());
}

TEST_F(EngineStopTest, WantedNeighbourIsAnsweredAsIfNothingHadHappened) {
  Start("run@1=hang;run@2=hang");
  const std::vector<TestCallPtr> calls = SendTogether({4, 5});
  EXPECT_TRUE(calls[0]->job->Finish(absl::CancelledError("")));
  Look(3);
  device_->Release(2);
  EXPECT_TRUE(calls[1]->Await().ok());
  EXPECT_TRUE(OutputIsRight(*calls[1]));
  EXPECT_EQ(calls[0]->Await().code(), absl::StatusCode::kCancelled);
}

// The first runs again alone, for ever; the second waits for its turn to run again, and is wanted.
TEST_F(EngineStopTest, RerunIsStoppedThoughOthersOfTheBatchAreWanted) {
  Start("run@1=hang;run@2=resource_exhausted");
  const std::vector<TestCallPtr> calls = SendTogether({kEndless, 2});
  device_->AwaitBatch(3);
  EXPECT_TRUE(calls[0]->job->Finish(absl::CancelledError("")));
  Look();
  EXPECT_TRUE(calls[1]->Await().ok());
  EXPECT_TRUE(OutputIsRight(*calls[1]));
}

TEST_F(EngineStopTest, StoppedBatchDoesNotMakeTheQueueLookShort) {
  Start("");
  const TestCallPtr call = Send(kEndless, absl::InfiniteDuration(), /*cost=*/int64_t{1} << 50);
  device_->AwaitBatch(1);
  EXPECT_TRUE(call->job->Finish(absl::CancelledError("")));
  Look();
  engine_.reset();
  EXPECT_EQ(scheduler_->RetryAfter(), absl::Milliseconds(100)) << "as before any batch has ended";
}

}  // namespace
}  // namespace tessera
