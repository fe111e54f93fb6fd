// When a batch starts: what is held back, collects, or goes at once.
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "server/clock/fake_clock.h"
#include "server/scheduler/awake_readers.h"
#include "server/scheduler/scheduler.h"
#include "server/scheduler/scheduler_test_job.h"

namespace tessera {
namespace {

constexpr absl::Duration kDelay = absl::Milliseconds(2);

// A scheduler with one batch running and one job waiting, and an executor that asks for the next batch.
class SchedulerDelayTest : public testing::Test {
 protected:
  SchedulerDelayTest() : scheduler_(Options(), &clock_) {
    EXPECT_TRUE(scheduler_.Enqueue(MakeTestJob({})).ok());
    EXPECT_EQ(scheduler_.TakeBatch().size(), 1u);
    EXPECT_TRUE(scheduler_.Enqueue(MakeTestJob({})).ok());
    executor_ = std::thread([this] {
      batch_ = scheduler_.TakeBatch();
      taken_.Notify();
    });
    clock_.AwaitWaiter(clock_.Now() + kDelay);
  }
  ~SchedulerDelayTest() override {
    scheduler_.Close();
    executor_.join();
  }

  static SchedulerOptions Options() {
    SchedulerOptions options;
    options.batch_delay = kDelay;
    options.max_batch_jobs = 3;
    return options;
  }

  FakeClock clock_;
  Scheduler scheduler_;
  std::vector<JobPtr> batch_;
  absl::Notification taken_;
  std::thread executor_;
};

TEST_F(SchedulerDelayTest, HoldsBackASmallBatchWhileAnotherRuns) {
  clock_.Advance(kDelay - absl::Nanoseconds(1));
  ASSERT_TRUE(scheduler_.Enqueue(MakeTestJob({})).ok());
  EXPECT_FALSE(taken_.HasBeenNotified());
  clock_.Advance(absl::Nanoseconds(1));
  taken_.WaitForNotification();
  EXPECT_EQ(batch_.size(), 2u);
}

TEST_F(SchedulerDelayTest, LetsGoWhenTheRunningBatchEnds) {
  scheduler_.BatchDone();
  taken_.WaitForNotification();
  EXPECT_EQ(batch_.size(), 1u);
}

TEST_F(SchedulerDelayTest, LetsGoOfAFullBatch) {
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(scheduler_.Enqueue(MakeTestJob({})).ok());
  taken_.WaitForNotification();
  EXPECT_EQ(batch_.size(), 3u);
}

TEST_F(SchedulerDelayTest, LetsGoWhenClosed) {
  scheduler_.Close();
  taken_.WaitForNotification();
  EXPECT_EQ(batch_.size(), 1u);
}

// A scheduler whose last batch, of `jobs` jobs, is over, one job waiting, and an executor that asks for the next batch.
class SchedulerPaceTest : public testing::Test {
 protected:
  static SchedulerOptions Options() {
    SchedulerOptions options;
    options.batch_delay = kDelay;
    return options;
  }

  void Start(int jobs) {
    for (int i = 0; i < jobs; ++i) EXPECT_TRUE(scheduler_.Enqueue(MakeTestJob({})).ok());
    EXPECT_EQ(scheduler_.TakeBatch().size(), static_cast<size_t>(jobs));
    clock_.Advance(kDelay / 4);
    scheduler_.BatchDone();
    EXPECT_TRUE(scheduler_.Enqueue(MakeTestJob({})).ok());
    executor_ = std::thread([this] {
      batch_ = scheduler_.TakeBatch();
      taken_.Notify();
    });
  }
  ~SchedulerPaceTest() override { executor_.join(); }

  FakeClock clock_;
  Scheduler scheduler_{Options(), &clock_};
  std::vector<JobPtr> batch_;
  absl::Notification taken_;
  std::thread executor_;
};

TEST_F(SchedulerPaceTest, NextBatchWaitsForCompanyWhereTheLastOneHadSome) {
  Start(2);
  clock_.AwaitWaiter(clock_.Now() + kDelay - kDelay / 4);
  clock_.Advance(kDelay - kDelay / 4 - absl::Nanoseconds(1));
  ASSERT_TRUE(scheduler_.Enqueue(MakeTestJob({})).ok());
  EXPECT_FALSE(taken_.HasBeenNotified());
  clock_.Advance(absl::Nanoseconds(1));
  taken_.WaitForNotification();
  EXPECT_EQ(batch_.size(), 2u);
}

TEST_F(SchedulerPaceTest, LoneCallsFollowOneAnotherAtOnce) {
  Start(1);
  taken_.WaitForNotification();
  EXPECT_EQ(batch_.size(), 1u);
}

// A scheduler with kLightBatches batches of one job each running, and an executor that asks for one more.
class SchedulerLightWorkTest : public testing::Test {
 protected:
  static constexpr int64_t kLight = 1000;

  static SchedulerOptions Options() {
    SchedulerOptions options;
    options.light_cost = kLight;
    options.max_batch_jobs = 4;
    return options;
  }

  void Enqueue(int64_t cost) { ASSERT_TRUE(scheduler_.Enqueue(MakeTestJob("a", cost)).ok()); }

  void Run(int64_t cost) {
    for (int i = 0; i < Scheduler::kLightBatches; ++i) {
      Enqueue(cost);
      EXPECT_EQ(scheduler_.TakeBatch().size(), 1u);
    }
    executor_ = std::thread([this] {
      batch_ = scheduler_.TakeBatch();
      taken_.Notify();
    });
  }
  ~SchedulerLightWorkTest() override {
    scheduler_.Close();
    executor_.join();
  }

  FakeClock clock_;
  Scheduler scheduler_{Options(), &clock_};
  std::vector<JobPtr> batch_;
  absl::Notification taken_;
  std::thread executor_;
};

TEST_F(SchedulerLightWorkTest, CollectsUntilABatchEnds) {
  Run(kLight - 1);
  for (int i = 0; i < 3; ++i) Enqueue(1);
  EXPECT_FALSE(taken_.WaitForNotificationWithTimeout(absl::Milliseconds(20)));
  scheduler_.BatchDone();
  taken_.WaitForNotification();
  EXPECT_EQ(batch_.size(), 3u);
}

TEST_F(SchedulerLightWorkTest, GoesWhenABatchIsStopped) {
  Run(1);
  Enqueue(1);
  scheduler_.BatchStopped();
  taken_.WaitForNotification();
  EXPECT_EQ(batch_.size(), 1u);
}

TEST_F(SchedulerLightWorkTest, GoesOnceItIsNotLightAnyMore) {
  Run(1);
  Enqueue(kLight / 2);
  Enqueue(kLight / 2);
  taken_.WaitForNotification();
  EXPECT_GE(batch_.size(), 1u);
}

TEST_F(SchedulerLightWorkTest, GoesAsAFullBatch) {
  Run(1);
  for (int i = 0; i < 4; ++i) Enqueue(1);
  taken_.WaitForNotification();
  EXPECT_EQ(batch_.size(), 4u);
}

TEST_F(SchedulerLightWorkTest, DoesNotWaitForWorkThatIsNotLight) {
  Run(kLight);
  Enqueue(1);
  taken_.WaitForNotification();
  EXPECT_EQ(batch_.size(), 1u);
}

TEST_F(SchedulerLightWorkTest, GoesWhenTheSchedulerCloses) {
  Run(1);
  Enqueue(1);
  scheduler_.Close();
  taken_.WaitForNotification();
  EXPECT_EQ(batch_.size(), 1u);
}

TEST(Scheduler, LightWorkDoesNotCollectWhileFewerBatchesRun) {
  FakeClock clock;
  Scheduler scheduler({}, &clock);
  for (int running = 0; running < Scheduler::kLightBatches; ++running) {
    ASSERT_TRUE(scheduler.Enqueue(MakeTestJob({})).ok());
    EXPECT_EQ(scheduler.TakeBatch().size(), 1u) << "a lone call waits for nothing";
  }
}

TEST(SchedulerLookoutTest, AnExecutorThatLooksTakesWhatComes) {
  FakeClock clock;
  Scheduler scheduler({.lookout = absl::Seconds(1)}, &clock);
  for (int round = 0; round < 100; ++round) {
    std::vector<JobPtr> batch;
    std::thread executor([&] { batch = scheduler.TakeBatch(); });
    ASSERT_TRUE(scheduler.Enqueue(MakeTestJob({})).ok());
    executor.join();
    ASSERT_EQ(batch.size(), 1u);
    scheduler.BatchDone();
  }
}

void RunLoneJobs(int jobs, Scheduler* scheduler) {
  for (int i = 0; i < jobs; ++i) {
    ASSERT_TRUE(scheduler->Enqueue(MakeTestJob({})).ok());
    ASSERT_EQ(scheduler->TakeBatch().size(), 1u);
    scheduler->BatchDone();
  }
}

TEST(SchedulerLookoutTest, AnExecutorThatLooksCallsWhatBringsAJob) {
  FakeClock clock;
  Scheduler scheduler({.lookout = absl::Seconds(1)}, &clock);
  RunLoneJobs(Scheduler::kLoneJobs, &scheduler);
  for (int round = 0; round < 100; ++round) {
    std::vector<JobPtr> batch;
    std::thread executor([&] { batch = scheduler.TakeBatch(); });
    std::thread::id brought;
    const auto bring = [&] {
      brought = std::this_thread::get_id();
      ASSERT_TRUE(scheduler.Enqueue(MakeTestJob({})).ok());
    };
    while (!scheduler.HandToLookout(bring)) std::this_thread::yield();
    EXPECT_EQ(brought, executor.get_id());
    executor.join();
    ASSERT_EQ(batch.size(), 1u);
    scheduler.BatchDone();
  }
}

TEST(SchedulerLookoutTest, WhereThereAreManyJobsNobodyIsHandedWhatBringsThem) {
  FakeClock clock;
  Scheduler scheduler({.lookout = absl::Milliseconds(20)}, &clock);
  RunLoneJobs(Scheduler::kLoneJobs, &scheduler);
  ASSERT_TRUE(scheduler.Enqueue(MakeTestJob({})).ok());
  ASSERT_TRUE(scheduler.Enqueue(MakeTestJob({})).ok());
  ASSERT_EQ(scheduler.TakeBatch().size(), 2u);
  scheduler.BatchDone();
  RunLoneJobs(Scheduler::kLoneJobs - 1, &scheduler);
  std::thread executor([&] { EXPECT_EQ(scheduler.TakeBatch().size(), 1u); });
  const absl::Time end = absl::Now() + absl::Milliseconds(40);
  while (absl::Now() < end) {
    EXPECT_FALSE(scheduler.HandToLookout([] { ADD_FAILURE() << "called"; }));
  }
  ASSERT_TRUE(scheduler.Enqueue(MakeTestJob({})).ok());
  executor.join();
}

TEST(SchedulerLookoutTest, ReadersStayAwakeForALoneCaller) {
  FakeClock clock;
  const SchedulerOptions options = {.lookout = absl::Seconds(1)};
  Scheduler lone(options, &clock);
  KeepReadersAwake(absl::ZeroDuration());
  RunLoneJobs(Scheduler::kLoneJobs - 1, &lone);
  EXPECT_FALSE(ReadersStayAwake());
  RunLoneJobs(1, &lone);
  EXPECT_TRUE(ReadersStayAwake());

  // One that comes more seldom than readers would stay awake for.
  for (int job = 0; job < 3; ++job) {
    KeepReadersAwake(absl::ZeroDuration());
    clock.Advance(options.lookout + absl::Milliseconds(1));
    RunLoneJobs(1, &lone);
    EXPECT_FALSE(ReadersStayAwake());
  }
  RunLoneJobs(1, &lone);
  EXPECT_TRUE(ReadersStayAwake());

  // Its answer is there before the batch is over: once does not count for much.
  ASSERT_TRUE(lone.Enqueue(MakeTestJob({})).ok());
  ASSERT_EQ(lone.TakeBatch().size(), 1u);
  KeepReadersAwake(absl::ZeroDuration());
  RunLoneJobs(1, &lone);
  lone.BatchDone();
  EXPECT_FALSE(ReadersStayAwake());
  RunLoneJobs(Scheduler::kLoneJobsLost, &lone);
  EXPECT_TRUE(ReadersStayAwake());

  // Two callers: each job alone in its batch, but while another runs.
  KeepReadersAwake(absl::ZeroDuration());
  Scheduler two(options, &clock);
  ASSERT_TRUE(two.Enqueue(MakeTestJob({})).ok());
  ASSERT_EQ(two.TakeBatch().size(), 1u);
  RunLoneJobs(2 * Scheduler::kLoneJobs, &two);
  EXPECT_FALSE(ReadersStayAwake());

  // Many: each job alone in its batch, but others wait.
  SchedulerOptions one_by_one = options;
  one_by_one.max_batch_jobs = 1;
  Scheduler many(one_by_one, &clock);
  for (int job = 0; job <= 2 * Scheduler::kLoneJobs; ++job) ASSERT_TRUE(many.Enqueue(MakeTestJob({})).ok());
  for (int job = 0; job < 2 * Scheduler::kLoneJobs; ++job) {
    ASSERT_EQ(many.TakeBatch().size(), 1u);
    many.BatchDone();
  }
  EXPECT_FALSE(ReadersStayAwake());

  Scheduler does_not_look({}, &clock);
  RunLoneJobs(2 * Scheduler::kLoneJobs, &does_not_look);
  EXPECT_FALSE(ReadersStayAwake());
}

TEST(SchedulerLookoutTest, NoJobIsLeftToASleeperThatNobodyWakes) {
  FakeClock clock;
  Scheduler scheduler({.max_batch_jobs = 1, .lookout = absl::Microseconds(50)}, &clock);
  std::vector<std::thread> executors;
  for (int i = 0; i < 4; ++i) {
    executors.emplace_back([&] {
      while (!scheduler.TakeBatch().empty()) scheduler.BatchDone();
    });
  }
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(scheduler.Enqueue(MakeTestJob({})).ok());
  EXPECT_TRUE(scheduler.Drain(absl::InfiniteFuture()));
  scheduler.Close();
  for (std::thread& executor : executors) executor.join();
}

}  // namespace
}  // namespace tessera
