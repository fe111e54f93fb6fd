#include "server/scheduler/scheduler_group.h"

#include <barrier>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/clock/fake_clock.h"
#include "server/scheduler/scheduler_test_job.h"

namespace tessera {
namespace {

class SchedulerGroupTest : public testing::Test {
 protected:
  // The device that the job went to, or -1.
  int Place(SchedulerGroup& group, const TestJobPtr& job, int devices) {
    std::vector<int64_t> before;
    for (int i = 0; i < devices; ++i) before.push_back(group.of(static_cast<size_t>(i)).queued_jobs());
    if (!group.Enqueue(job).ok()) return -1;
    for (int i = 0; i < devices; ++i) {
      if (group.of(static_cast<size_t>(i)).queued_jobs() > before[static_cast<size_t>(i)]) return i;
    }
    return -1;
  }

  FakeClock clock_;
};

TEST_F(SchedulerGroupTest, JobsGoWhereTheLeastCostIsOutstanding) {
  SchedulerGroup group({}, 3, &clock_);
  EXPECT_EQ(Place(group, MakeTestJob("a", 100), 3), 0);
  EXPECT_EQ(Place(group, MakeTestJob("a", 10), 3), 1);
  EXPECT_EQ(Place(group, MakeTestJob("a", 50), 3), 2);
  EXPECT_EQ(Place(group, MakeTestJob("a", 30), 3), 1);
  EXPECT_EQ(Place(group, MakeTestJob("a", 30), 3), 1);
  EXPECT_EQ(Place(group, MakeTestJob("a", 30), 3), 2);
  EXPECT_EQ(group.queued_jobs(), 6);
}

TEST_F(SchedulerGroupTest, WhatRunsIsOutstandingToo) {
  SchedulerGroup group({}, 2, &clock_);
  EXPECT_EQ(Place(group, MakeTestJob("a", 100), 2), 0);
  EXPECT_EQ(group.of(0).TakeBatch().size(), 1);
  EXPECT_EQ(group.of(0).outstanding_cost(), 100);
  EXPECT_EQ(Place(group, MakeTestJob("a", 60), 2), 1);
  EXPECT_EQ(Place(group, MakeTestJob("a", 60), 2), 1);
  EXPECT_EQ(Place(group, MakeTestJob("a", 60), 2), 0);
  group.of(0).BatchDone();
  EXPECT_EQ(group.of(0).outstanding_cost(), 60);
}

TEST_F(SchedulerGroupTest, JobsThatComeAtOnceAreSpread) {
  constexpr int kDevices = 2, kRounds = 5000;
  SchedulerGroup group({.max_queue_jobs = 2 * kRounds}, kDevices, &clock_);
  std::barrier together(kDevices);
  int uneven = 0;
  const auto enqueue = [&](bool looks) {
    for (int round = 1; round <= kRounds; ++round) {
      together.arrive_and_wait();
      EXPECT_TRUE(group.Enqueue(MakeTestJob("a", 1)).ok());
      together.arrive_and_wait();
      if (looks) uneven += group.of(0).queued_jobs() != round || group.of(1).queued_jobs() != round;
    }
  };
  std::thread other([&] { enqueue(false); });
  enqueue(true);
  other.join();
  EXPECT_EQ(uneven, 0);
  group.Abort(absl::CancelledError());
}

TEST_F(SchedulerGroupTest, FullSchedulerPassesItsJobsOn) {
  SchedulerGroup group({.max_queue_jobs = 1}, 2, &clock_);
  EXPECT_EQ(Place(group, MakeTestJob("a", 1), 2), 0);
  EXPECT_EQ(Place(group, MakeTestJob("a", 100), 2), 1);
  EXPECT_EQ(group.Enqueue(MakeTestJob("a", 1)).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(SchedulerGroupTest, JobOfOneDeviceGoesThereOrNowhere) {
  SchedulerGroup group({.max_queue_jobs = 2}, 2, &clock_);
  const auto bound = [](int device) { return MakeTestJob(Job::Traits{.cost = 100, .device = device}); };
  EXPECT_EQ(Place(group, bound(1), 2), 1);
  EXPECT_EQ(Place(group, bound(1), 2), 1);
  EXPECT_EQ(group.Enqueue(bound(1)).code(), absl::StatusCode::kResourceExhausted);
  const TestJobPtr job = bound(0);
  EXPECT_EQ(Place(group, job, 2), 0);
  EXPECT_TRUE(job->Finish(absl::CancelledError()));
  group.Forget(*job);
  EXPECT_EQ(group.of(0).queued_jobs(), 0);
  group.of(0).Close(absl::UnavailableError("lost"));
  EXPECT_EQ(group.Enqueue(bound(0)).code(), absl::StatusCode::kUnavailable);
}

TEST_F(SchedulerGroupTest, ClosedSchedulerPassesItsJobsOn) {
  SchedulerGroup group({.max_queue_jobs = 2}, 2, &clock_);
  group.of(0).Close(absl::UnavailableError("device lost"));
  EXPECT_EQ(Place(group, MakeTestJob("a", 100), 2), 1);
  EXPECT_EQ(Place(group, MakeTestJob("a", 100), 2), 1);
  EXPECT_EQ(group.Enqueue(MakeTestJob("a", 100)).code(), absl::StatusCode::kResourceExhausted);
  group.of(1).Close(absl::UnavailableError("device lost"));
  EXPECT_EQ(group.Enqueue(MakeTestJob("a", 100)), absl::UnavailableError("device lost"));
}

TEST_F(SchedulerGroupTest, JobThatHasEndedOrExpiredIsNotPassedOn) {
  SchedulerGroup group({}, 2, &clock_);
  const TestJobPtr ended = MakeTestJob("a", 1);
  ended->Finish(absl::CancelledError(""));
  EXPECT_EQ(group.Enqueue(ended).code(), absl::StatusCode::kCancelled);
  Job::Traits traits;
  traits.deadline = clock_.Now();
  EXPECT_EQ(group.Enqueue(MakeTestJob(traits)).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(group.queued_jobs(), 0);
}

TEST_F(SchedulerGroupTest, ForgetsAJobWhereverItIs) {
  SchedulerGroup group({}, 2, &clock_);
  const TestJobPtr first = MakeTestJob("a", 1), second = MakeTestJob("a", 1), never_queued = MakeTestJob("a", 1);
  ASSERT_TRUE(group.Enqueue(first).ok());
  ASSERT_TRUE(group.Enqueue(second).ok());
  ASSERT_EQ(group.of(1).queued_jobs(), 1);
  for (const TestJobPtr& job : {second, never_queued, first}) {
    job->Finish(absl::CancelledError(""));
    group.Forget(*job);
  }
  EXPECT_EQ(group.queued_jobs(), 0);
}

TEST_F(SchedulerGroupTest, RetryTimeIsThatOfAnOpenDevice) {
  SchedulerGroup group({}, 2, &clock_);
  group.of(0).Close(absl::UnavailableError("device lost"));
  ASSERT_TRUE(group.Enqueue(MakeTestJob("a", 1000)).ok());
  ASSERT_EQ(group.of(1).TakeBatch().size(), 1);
  clock_.Advance(absl::Seconds(1));
  group.of(1).BatchDone();
  ASSERT_TRUE(group.Enqueue(MakeTestJob("a", 2000)).ok());
  EXPECT_EQ(group.RetryAfter(), absl::Seconds(2));
}

// Calls that are cancelled by one thread while another enqueues them are forgotten, wherever they end up.
TEST_F(SchedulerGroupTest, CancellationRacesPlacement) {
  SchedulerGroup group({.max_queue_jobs = 1}, 2, &clock_);
  for (int round = 0; round < 2000; ++round) {
    const TestJobPtr blocker = round % 2 == 0 ? MakeTestJob("a", 1) : nullptr;
    if (blocker != nullptr) {
      ASSERT_TRUE(group.Enqueue(blocker).ok());
    }
    const TestJobPtr job = MakeTestJob("a", 1);
    std::thread canceller([&] {
      job->Finish(absl::CancelledError(""));
      group.Forget(*job);
    });
    const absl::Status status = group.Enqueue(job);
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
    canceller.join();
    if (blocker != nullptr) {
      blocker->Finish(absl::CancelledError(""));
      group.Forget(*blocker);
    }
    ASSERT_EQ(group.queued_jobs(), 0) << round;
  }
}

}  // namespace
}  // namespace tessera
