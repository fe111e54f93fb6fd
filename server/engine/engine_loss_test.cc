// The device is lost: by a sticky error, or because a batch hangs.
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/engine/engine.h"
#include "server/engine/engine_test_fixture.h"

namespace tessera {
namespace {

class EngineLossTest : public EngineTest {
 protected:
  static void ExpectLost(TestCall& call, Job::State where) {
    EXPECT_EQ(call.Await(), absl::UnavailableError("device lost"));
    EXPECT_EQ(call.where, where);
  }
};

class EngineStickyTest : public EngineLossTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Points, EngineStickyTest, testing::Values("copy_in", "run", "copy_out"));

TEST_P(EngineStickyTest, EndsEverything) {
  Start(std::string("run@1=hang;") + GetParam() + "@2=sticky");
  Send(1);
  device_->AwaitBatch(1);
  const TestCallPtr in_flight = Send(2);
  const TestCallPtr large = Send(3, absl::InfiniteDuration(), int64_t{1} << 40);  // shares no batch with the small one
  bool ended_before_lost = true;
  on_lost_ = [&] { ended_before_lost = in_flight->done.HasBeenNotified() || large->done.HasBeenNotified(); };
  bool ended_before_fatal = false;
  on_fatal_ = [&] {
    ended_before_fatal = in_flight->done.HasBeenNotified() && large->done.HasBeenNotified() &&
                         scheduler_->Enqueue(MakeCall(1)->job) == absl::UnavailableError("device lost");
  };
  device_->Release(1);
  ExpectLost(*in_flight, Job::State::kRunning);
  ExpectLost(*large, Job::State::kQueued);
  fatal_.WaitForNotification();
  EXPECT_FALSE(ended_before_lost);
  EXPECT_EQ(told_, absl::UnavailableError("device lost"));
  EXPECT_TRUE(ended_before_fatal);
  EXPECT_THAT(fatal_status_.message(), testing::HasSubstr("batch 2"));
}

TEST_F(EngineLossTest, StickyErrorOnOneSlotEndsTheJobsOfTheOthers) {
  Start("run@1=hang;run@2=sticky", /*slots=*/2);
  const TestCallPtr elsewhere = Send(1);
  device_->AwaitBatch(1);
  const TestCallPtr guilty = Send(2);
  ExpectLost(*guilty, Job::State::kRunning);
  ExpectLost(*elsewhere, Job::State::kRunning);
  fatal_.WaitForNotification();
  elsewhere->job.reset();
  guilty->job.reset();
  EXPECT_GT(device_->staging().in_use(), 0u) << "the other slot's batch is still under way";
  device_->ReleaseAll();
  engine_.reset();
  EXPECT_EQ(device_->staging().in_use(), 0u);
}

TEST_F(EngineLossTest, StickyErrorInARerunEndsTheRestOfTheBatch) {
  Start("run@1=hang;run@2=resource_exhausted;run@4=sticky");
  Send(1);
  device_->AwaitBatch(1);
  std::vector<TestCallPtr> calls;
  for (uint32_t tokens = 1; tokens <= 3; ++tokens) calls.push_back(Send(tokens));
  device_->Release(1);
  EXPECT_TRUE(calls[0]->Await().ok());
  ExpectLost(*calls[1], Job::State::kRunning);
  ExpectLost(*calls[2], Job::State::kRunning);
  fatal_.WaitForNotification();
}

TEST_F(EngineLossTest, HungBatchIsFound) {
  Start("run@1=hang", 1, {.hang_timeout = absl::Seconds(5), .watchdog_period = absl::Seconds(1)});
  const TestCallPtr hung = Send(1);
  device_->AwaitBatch(1);
  const TestCallPtr waiting = Send(2);
  Look(5);
  EXPECT_FALSE(hung->done.HasBeenNotified());
  Look(2);  // cost adds to the timeout, if only nanoseconds, and the batch may have begun just before a look
  ExpectLost(*hung, Job::State::kRunning);
  ExpectLost(*waiting, Job::State::kQueued);
  fatal_.WaitForNotification();
  EXPECT_THAT(fatal_status_.message(), testing::HasSubstr("hung"));
}

// A process that was stopped for an hour and goes on has looked once.
TEST_F(EngineLossTest, TimeInWhichNobodyLookedIsNoHang) {
  Start("run@1=hang", 1, {.hang_timeout = absl::Seconds(5), .watchdog_period = absl::Seconds(1)});
  const TestCallPtr slow = Send(1);
  device_->AwaitBatch(1);
  Advance(absl::Hours(1));
  Look();
  device_->Release(1);
  EXPECT_TRUE(slow->Await().ok());
  EXPECT_FALSE(fatal_.HasBeenNotified());
}

TEST_F(EngineLossTest, LargeBatchMayTakeLonger) {
  Start("run@1=hang", 1, {.hang_timeout = absl::Seconds(5), .slowest_pace = 10, .watchdog_period = absl::Seconds(1)});
  const TestCallPtr large = Send(1, absl::InfiniteDuration(), /*cost=*/100);  // 5 s + 10 s
  device_->AwaitBatch(1);
  Look(15);
  EXPECT_FALSE(large->done.HasBeenNotified());
  Look();
  ExpectLost(*large, Job::State::kRunning);
}

TEST_F(EngineLossTest, HangCheckCanBeTurnedOff) {
  Start("run@1=hang", 1, {.hang_timeout = absl::ZeroDuration(), .watchdog_period = absl::Hours(1)});
  const TestCallPtr slow = Send(1);
  device_->AwaitBatch(1);
  Look(100);
  device_->Release(1);
  EXPECT_TRUE(slow->Await().ok());
  EXPECT_FALSE(fatal_.HasBeenNotified());
}

TEST_F(EngineLossTest, BatchThatHangsForEverDoesNotKeepTheDestructor) {
  Start("run@1=hang", 1, {.hang_timeout = absl::Seconds(5), .watchdog_period = absl::Seconds(1)});
  const TestCallPtr hung = Send(1);
  device_->AwaitBatch(1);
  Look(7);
  ExpectLost(*hung, Job::State::kRunning);
  hung->job.reset();
  engine_.reset();
  EXPECT_GT(device_->staging().in_use(), 0u) << "the abandoned thread keeps the job";
  device_->ReleaseAll();
  while (device_->staging().in_use() > 0) std::this_thread::yield();
}

}  // namespace
}  // namespace tessera
