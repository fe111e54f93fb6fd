#include "server/engine/engine.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/engine/engine_test_fixture.h"

namespace tessera {
namespace {

using Batch = RecordingObserver::Batch;
using Drop = RecordingObserver::Drop;
using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(EngineTest, RunsAJobAndRecordsItsTimes) {
  Start("run@1=delay:7ms");
  const absl::Time start = clock_.Now();
  const TestCallPtr call = Send(7);
  clock_.AwaitWaiter(start + absl::Milliseconds(7));
  clock_.Advance(absl::Milliseconds(7));
  EXPECT_TRUE(call->Await().ok());
  EXPECT_EQ(call->where, Job::State::kRunning);
  EXPECT_TRUE(OutputIsRight(*call));
  EXPECT_EQ(call->job->times().launched, start);
  EXPECT_EQ(call->job->times().finished, start + absl::Milliseconds(7));
  EXPECT_EQ(call->job->times().batch_jobs, 1);
  engine_.reset();
  EXPECT_THAT(observer_.batches(), ElementsAre(Batch{1, 7, true}));
}

TEST_F(EngineTest, JobsThatCameWhileTheDeviceWasBusyShareABatch) {
  Start("run@1=hang");
  Send(1);
  device_->AwaitBatch(1);
  std::vector<TestCallPtr> calls;
  for (uint32_t tokens = 1; tokens <= 5; ++tokens) calls.push_back(Send(tokens));
  device_->Release(1);
  for (const TestCallPtr& call : calls) {
    EXPECT_TRUE(call->Await().ok());
    EXPECT_TRUE(OutputIsRight(*call));
    EXPECT_EQ(call->job->times().batch_jobs, 5);
  }
  engine_.reset();
  EXPECT_THAT(observer_.batches(), ElementsAre(Batch{1, 1, true}, Batch{5, 15, true}));
}

TEST_F(EngineTest, EverySlotRunsABatch) {
  Start("run@*=hang", /*slots=*/3);
  std::vector<TestCallPtr> calls;
  for (int64_t batch = 1; batch <= 3; ++batch) {
    calls.push_back(Send(1));
    device_->AwaitBatch(batch);
  }
  device_->ReleaseAll();
  for (const TestCallPtr& call : calls) EXPECT_TRUE(call->Await().ok());
}

TEST_F(EngineTest, WatchdogThatSleptLooksOnceABatchRuns) {
  Start("run@2=hang");
  EXPECT_TRUE(Send(1)->Await().ok());
  Look(Engine::kWatchedIdle / period_ - 1);
  clock_.Advance(period_);  // after this look it sleeps
  const TestCallPtr call = Send(1, absl::Seconds(1));
  device_->AwaitBatch(2);
  Advance(absl::Seconds(1));
  EXPECT_EQ(call->Await().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(call->where, Job::State::kRunning);
}

TEST_F(EngineTest, DestructorRunsWhatWaits) {
  Start("run@1=hang");
  std::vector<TestCallPtr> calls;
  for (int i = 0; i < 4; ++i) calls.push_back(Send(1));
  device_->AwaitBatch(1);
  device_->ReleaseAll();
  engine_.reset();
  for (const TestCallPtr& call : calls) {
    ASSERT_TRUE(call->done.HasBeenNotified());
    EXPECT_TRUE(call->status.ok());
  }
}

// The first call expires at batching; what it does as it ends falls between the batching and the launch of the others.
TEST_F(EngineTest, JobsThatEndBetweenBatchingAndLaunchAreDropped) {
  Start("run@1=hang");
  Send(1);
  device_->AwaitBatch(1);
  const TestCallPtr expires_first = MakeCall(2, absl::Milliseconds(1));
  const TestCallPtr cancelled = MakeCall(3);
  const TestCallPtr expires = MakeCall(4, absl::Milliseconds(2));
  const TestCallPtr lives = MakeCall(5);
  expires_first->on_done = [&] {
    cancelled->job->Finish(absl::CancelledError("by the caller"));
    clock_.Advance(absl::Milliseconds(1));
  };
  for (const TestCallPtr& call : {expires_first, cancelled, expires, lives}) Enqueue(call);
  clock_.Advance(absl::Milliseconds(1));  // short of the watchdog's period
  device_->Release(1);

  EXPECT_TRUE(lives->Await().ok());
  EXPECT_EQ(expires_first->Await().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(expires_first->where, Job::State::kQueued);
  EXPECT_EQ(cancelled->Await().message(), "by the caller");
  EXPECT_EQ(cancelled->where, Job::State::kBatched);
  EXPECT_EQ(expires->Await().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(expires->where, Job::State::kBatched);
  engine_.reset();
  EXPECT_THAT(observer_.batches(), ElementsAre(Batch{1, 1, true}, Batch{1, 5, true}));
  EXPECT_THAT(observer_.drops(), ElementsAre(Drop{absl::StatusCode::kCancelled, Job::State::kBatched},
                                             Drop{absl::StatusCode::kDeadlineExceeded, Job::State::kBatched}));
}

TEST_F(EngineTest, JobCancelledWhileItRunsKeepsItsMemoryUntilTheDeviceLetsGo) {
  Start("run@1=hang");
  TestCallPtr call = Send(1);
  device_->AwaitBatch(1);
  EXPECT_TRUE(call->job->Finish(absl::CancelledError("")));
  EXPECT_EQ(call->where, Job::State::kRunning);
  const size_t held = device_->staging().in_use();
  call->job.reset();
  EXPECT_EQ(device_->staging().in_use(), held) << "the device may still write";
  device_->Release(1);
  engine_.reset();
  EXPECT_EQ(device_->staging().in_use(), 0u);
  EXPECT_EQ(call->status.code(), absl::StatusCode::kCancelled) << "the outcome of the run came too late";
}

TEST_F(EngineTest, JobsWhoseDeadlinePassesAreEndedWhileTheDeviceIsBusy) {
  Start("run@1=hang");
  const TestCallPtr running = Send(1, absl::Seconds(1));
  device_->AwaitBatch(1);
  const TestCallPtr patient = Send(3, absl::Seconds(2));
  const TestCallPtr waiting = Send(2, absl::Seconds(1));
  Advance(absl::Seconds(1));
  EXPECT_EQ(waiting->Await().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(waiting->where, Job::State::kQueued);
  EXPECT_EQ(running->Await().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(running->where, Job::State::kRunning);
  EXPECT_FALSE(patient->done.HasBeenNotified());
  device_->Release(1);
  EXPECT_TRUE(patient->Await().ok());
}

class EngineFaultPointTest : public EngineTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Points, EngineFaultPointTest, testing::Values("copy_in", "run", "copy_out"));

TEST_P(EngineFaultPointTest, RecoverableErrorFailsTheJobAndTheDeviceGoesOn) {
  Start(std::string(GetParam()) + "@1=resource_exhausted");
  const TestCallPtr failed = Send(1);
  EXPECT_EQ(failed->Await().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(failed->where, Job::State::kRunning);
  EXPECT_TRUE(Send(2)->Await().ok());
  EXPECT_FALSE(fatal_.HasBeenNotified());
}

TEST_P(EngineFaultPointTest, OnlyTheGuiltyJobOfABatchFails) {
  // Batch 2 has four jobs and fails; they are run again alone, as batches 3 to 6.
  Start("run@1=hang;" + std::string(GetParam()) + "@2=resource_exhausted;" + GetParam() + "@4=internal");
  Send(1);
  device_->AwaitBatch(1);
  std::vector<TestCallPtr> calls;
  for (uint32_t tokens = 1; tokens <= 4; ++tokens) calls.push_back(Send(tokens));
  device_->Release(1);
  for (size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(i);
    if (i == 1) {
      EXPECT_EQ(calls[i]->Await().code(), absl::StatusCode::kInternal);
    } else {
      EXPECT_TRUE(calls[i]->Await().ok());
      EXPECT_TRUE(OutputIsRight(*calls[i]));
      EXPECT_EQ(calls[i]->job->times().batch_jobs, 1);
    }
  }
  engine_.reset();
  EXPECT_THAT(observer_.batches(), ElementsAre(Batch{1, 1, true}, Batch{4, 10, false}, Batch{1, 1, true},
                                               Batch{1, 2, false}, Batch{1, 3, true}, Batch{1, 4, true}));
}

TEST_F(EngineTest, JobsThatEndBeforeTheirRerunAreDropped) {
  Start("run@1=hang;run@2=resource_exhausted");
  Send(1);
  device_->AwaitBatch(1);
  const TestCallPtr first = MakeCall(1);
  const TestCallPtr cancelled = MakeCall(2);
  const TestCallPtr expires = MakeCall(3, absl::Milliseconds(1));
  const TestCallPtr last = MakeCall(4);
  first->on_done = [&] {
    cancelled->job->Finish(absl::CancelledError(""));
    clock_.Advance(absl::Milliseconds(1));
  };
  for (const TestCallPtr& call : {first, cancelled, expires, last}) Enqueue(call);
  device_->Release(1);
  EXPECT_TRUE(first->Await().ok());
  EXPECT_EQ(cancelled->Await().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(expires->Await().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(last->Await().ok());
  engine_.reset();
  EXPECT_THAT(observer_.batches(),
              ElementsAre(Batch{1, 1, true}, Batch{4, 10, false}, Batch{1, 1, true}, Batch{1, 4, true}));
  EXPECT_THAT(observer_.drops(), ElementsAre(Drop{absl::StatusCode::kCancelled, Job::State::kRunning},
                                             Drop{absl::StatusCode::kDeadlineExceeded, Job::State::kRunning}));
}

// Would deadlock if a job were finished under a lock of the engine or the scheduler.
TEST_F(EngineTest, JobsAreFinishedWithNoLockHeld) {
  Start("run@2=resource_exhausted");
  TestCallPtr next;
  const TestCallPtr first = MakeCall(1);
  first->on_done = [&] { next = Send(2); };
  Enqueue(first);
  EXPECT_TRUE(first->Await().ok());
  EXPECT_EQ(next->Await().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(observer_.drops(), IsEmpty());
}

}  // namespace
}  // namespace tessera
