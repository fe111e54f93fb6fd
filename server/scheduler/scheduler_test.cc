#include "server/scheduler/scheduler.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/clock/fake_clock.h"
#include "server/scheduler/scheduler_test_job.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr absl::Duration kDelay = absl::Milliseconds(2);

TEST(SchedulerOptions, AreRefusedByName) {
  EXPECT_TRUE(Validate(SchedulerOptions{}).ok());
  SchedulerOptions options;
  options.max_batch_jobs = 0;
  EXPECT_THAT(Validate(options).message(), HasSubstr("max_batch_requests: 0"));
  options = {};
  options.max_tenant_share = 1.5;
  EXPECT_THAT(Validate(options).message(), HasSubstr("max_tenant_share"));
  options = {};
  options.batch_delay = absl::Seconds(2);
  EXPECT_THAT(Validate(options).message(), HasSubstr("batch_delay: 2s"));
  options = {};
  options.light_cost = -1;
  EXPECT_THAT(Validate(options).message(), HasSubstr("light_cost: -1"));
}

TEST(Scheduler, EnqueueRefusesWithoutTouchingTheJob) {
  FakeClock clock;
  SchedulerOptions options;
  options.max_queue_jobs = 1;
  Scheduler scheduler(options, &clock);
  const TestJobPtr late = MakeTestJob({.deadline = clock.Now()});
  EXPECT_EQ(scheduler.Enqueue(late).code(), absl::StatusCode::kDeadlineExceeded);
  const TestJobPtr cancelled = MakeTestJob({});
  cancelled->Finish(absl::CancelledError(""));
  EXPECT_EQ(scheduler.Enqueue(cancelled).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(scheduler.Enqueue(MakeTestJob({})).ok());
  const TestJobPtr surplus = MakeTestJob({});
  EXPECT_EQ(scheduler.Enqueue(surplus).code(), absl::StatusCode::kResourceExhausted);
  scheduler.Close();
  EXPECT_EQ(scheduler.Enqueue(surplus).code(), absl::StatusCode::kUnavailable);
  for (const TestJobPtr& job : {late, surplus}) {
    EXPECT_EQ(job->state(), Job::State::kCreated);
    EXPECT_EQ(job->times_done, 0);
  }
}

TEST(Scheduler, WaitingExecutorGetsAJobAtOnce) {
  FakeClock clock;
  SchedulerOptions options;
  options.batch_delay = kDelay;  // must not matter: nothing runs
  Scheduler scheduler(options, &clock);
  std::vector<JobPtr> batch;
  std::thread executor([&] { batch = scheduler.TakeBatch(); });
  const TestJobPtr job = MakeTestJob({});
  ASSERT_TRUE(scheduler.Enqueue(job).ok());
  executor.join();
  EXPECT_THAT(batch, ElementsAre(job));
  EXPECT_EQ(job->state(), Job::State::kBatched);
}

TEST(Scheduler, ExpiredJobsAreFinishedAtBatching) {
  FakeClock clock;
  Scheduler scheduler({}, &clock);
  const TestJobPtr expires = MakeTestJob({.deadline = clock.Now() + absl::Seconds(1)});
  const TestJobPtr lives = MakeTestJob({.deadline = clock.Now() + absl::Seconds(2)});
  ASSERT_TRUE(scheduler.Enqueue(expires).ok());
  ASSERT_TRUE(scheduler.Enqueue(lives).ok());
  clock.Advance(absl::Seconds(1));
  EXPECT_THAT(scheduler.TakeBatch(), ElementsAre(lives));
  EXPECT_EQ(expires->status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(expires->where, Job::State::kQueued);
}

TEST(Scheduler, TakeBatchWaitsOnWhereAllHadExpired) {
  FakeClock clock;
  Scheduler scheduler({}, &clock);
  const TestJobPtr expires = MakeTestJob({.deadline = clock.Now() + absl::Seconds(1)});
  absl::Notification expired;
  expires->on_done = [&] { expired.Notify(); };
  ASSERT_TRUE(scheduler.Enqueue(expires).ok());
  clock.Advance(absl::Seconds(1));
  std::vector<JobPtr> batch;
  std::thread executor([&] { batch = scheduler.TakeBatch(); });
  expired.WaitForNotification();
  const TestJobPtr next = MakeTestJob({});
  ASSERT_TRUE(scheduler.Enqueue(next).ok());
  executor.join();
  EXPECT_THAT(batch, ElementsAre(next));
}

TEST(Scheduler, OverdueJobsAreFinishedWithNoExecutorFree) {
  FakeClock clock;
  Scheduler scheduler({}, &clock);
  const absl::Time first = clock.Now() + absl::Seconds(1);
  std::vector<TestJobPtr> jobs;
  for (int i = 0; i < 1000; ++i) {
    jobs.push_back(MakeTestJob({.deadline = first + absl::Milliseconds(i)}));
    ASSERT_TRUE(scheduler.Enqueue(jobs.back()).ok());
  }
  EXPECT_EQ(scheduler.ExpireOverdue(), first);
  EXPECT_EQ(scheduler.queued_jobs(), 1000);
  clock.Advance(absl::Seconds(1) + absl::Milliseconds(899));
  absl::Time next = scheduler.ExpireOverdue();
  EXPECT_GT(scheduler.queued_jobs(), 100) << "one call does a bounded amount of work";
  EXPECT_LE(next, clock.Now()) << "and says that there is more";
  while (next <= clock.Now()) next = scheduler.ExpireOverdue();
  EXPECT_EQ(next, first + absl::Milliseconds(900));
  EXPECT_EQ(scheduler.queued_jobs(), 100);
  for (int i = 0; i < 900; ++i) {
    ASSERT_EQ(jobs[i]->status.code(), absl::StatusCode::kDeadlineExceeded);
    ASSERT_EQ(jobs[i]->where, Job::State::kQueued);
  }
  EXPECT_EQ(jobs[900]->times_done, 0);
}

TEST(Scheduler, ForgottenJobsNoLongerCount) {
  FakeClock clock;
  Scheduler scheduler({}, &clock);
  const TestJobPtr job = MakeTestJob({.bytes = 10});
  const TestJobPtr stranger = MakeTestJob({});
  ASSERT_TRUE(scheduler.Enqueue(job).ok());
  EXPECT_EQ(scheduler.queued_bytes(), 10);
  EXPECT_TRUE(job->Finish(absl::CancelledError("")));
  scheduler.Forget(*job);
  scheduler.Forget(*job);
  scheduler.Forget(*stranger);
  EXPECT_EQ(scheduler.queued_jobs(), 0);
  EXPECT_EQ(scheduler.queued_bytes(), 0);
  EXPECT_EQ(job.use_count(), 1);
}

TEST(Scheduler, NoJobIsExpectedAfterEnqueueWhateverItAnswers) {
  FakeClock clock;
  Scheduler scheduler({.max_queue_jobs = 1}, &clock);
  const TestJobPtr late = MakeTestJob({.bytes = 10, .deadline = clock.Now() + absl::Seconds(1)});
  ASSERT_TRUE(scheduler.Expect(*late).ok());
  EXPECT_EQ(scheduler.expected_jobs(), 1);
  EXPECT_EQ(scheduler.expected_bytes(), 10);
  EXPECT_EQ(scheduler.Enqueue(MakeTestJob({})).code(), absl::StatusCode::kResourceExhausted);
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(scheduler.Enqueue(late).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(scheduler.expected_jobs(), 0);
  EXPECT_EQ(scheduler.Expect(*late).code(), absl::StatusCode::kDeadlineExceeded);

  const TestJobPtr ended = MakeTestJob({});
  ASSERT_TRUE(scheduler.Expect(*ended).ok());
  ended->Finish(absl::CancelledError(""));
  EXPECT_EQ(scheduler.Enqueue(ended).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(scheduler.expected_jobs(), 0);

  const TestJobPtr comes_after_the_end = MakeTestJob({});
  ASSERT_TRUE(scheduler.Expect(*comes_after_the_end).ok());
  scheduler.Close();
  EXPECT_EQ(scheduler.Enqueue(comes_after_the_end).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(scheduler.expected_jobs(), 0);
  EXPECT_EQ(scheduler.Expect(*comes_after_the_end).code(), absl::StatusCode::kUnavailable);
}

TEST(Scheduler, CancelledJobsAreNeverBatched) {
  FakeClock clock;
  Scheduler scheduler({}, &clock);
  const TestJobPtr cancelled = MakeTestJob({});
  const TestJobPtr lives = MakeTestJob({});
  ASSERT_TRUE(scheduler.Enqueue(cancelled).ok());
  ASSERT_TRUE(scheduler.Enqueue(lives).ok());
  EXPECT_TRUE(cancelled->Finish(absl::CancelledError("")));  // and not yet forgotten
  EXPECT_THAT(scheduler.TakeBatch(), ElementsAre(lives));
  EXPECT_EQ(cancelled->times_done, 1);
  EXPECT_EQ(scheduler.queued_jobs(), 0);
}

TEST(Scheduler, SmallJobGoesAfterSoManyLargeBatches) {
  FakeClock clock;
  SchedulerOptions options;
  options.max_batch_jobs = 1;
  options.large_cost = 100;
  options.max_consecutive_large = 2;
  Scheduler scheduler(options, &clock);
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(scheduler.Enqueue(MakeTestJob({.tenant = "large", .priority = JobPriority::kHigh, .cost = 100})).ok());
    ASSERT_TRUE(scheduler.Enqueue(MakeTestJob({.tenant = "small", .cost = 99})).ok());
  }
  std::string order;
  for (int i = 0; i < 12; ++i) order += scheduler.TakeBatch()[0]->traits().tenant[0];
  EXPECT_EQ(order, "llsllsllssss");
}

TEST(Scheduler, BatchesKeepWithinTheOptions) {
  FakeClock clock;
  SchedulerOptions options;
  options.max_batch_jobs = 4;
  options.max_batch_tokens = 100;
  options.max_batch_cost = 1000;
  Scheduler scheduler(options, &clock);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(scheduler.Enqueue(MakeTestJob({.cost = 1, .tokens = 1})).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(scheduler.Enqueue(MakeTestJob({.cost = 1, .tokens = 40})).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(scheduler.Enqueue(MakeTestJob({.cost = 400, .tokens = 1})).ok());
  ASSERT_TRUE(scheduler.Enqueue(MakeTestJob({.cost = 5000, .tokens = 500})).ok());
  std::vector<size_t> sizes;
  while (scheduler.queued_jobs() > 0) sizes.push_back(scheduler.TakeBatch().size());
  EXPECT_THAT(sizes, ElementsAre(4, 3, 3, 1, 1));
}

TEST(Scheduler, ClosedSchedulerStillRunsWhatWaits) {
  FakeClock clock;
  Scheduler scheduler({}, &clock);
  const TestJobPtr job = MakeTestJob({});
  ASSERT_TRUE(scheduler.Enqueue(job).ok());
  scheduler.Close();
  EXPECT_THAT(scheduler.TakeBatch(), ElementsAre(job));
  EXPECT_THAT(scheduler.TakeBatch(), IsEmpty());
}

TEST(Scheduler, CloseReleasesWaitingExecutors) {
  FakeClock clock;
  Scheduler scheduler({}, &clock);
  std::vector<std::thread> executors;
  for (int i = 0; i < 3; ++i) executors.emplace_back([&] { EXPECT_THAT(scheduler.TakeBatch(), IsEmpty()); });
  scheduler.Close();
  for (std::thread& executor : executors) executor.join();
}

TEST(Scheduler, DrainWaitsForWhatWaitsAndRuns) {
  FakeClock clock;
  Scheduler scheduler({}, &clock);
  ASSERT_TRUE(scheduler.Enqueue(MakeTestJob({})).ok());
  const absl::Time deadline = clock.Now() + absl::Seconds(10);
  bool drained = false;
  std::thread drainer([&] { drained = scheduler.Drain(deadline); });
  clock.AwaitWaiter(deadline);
  EXPECT_EQ(scheduler.TakeBatch().size(), 1u);
  clock.AwaitWaiter(deadline);  // nothing waits, but a batch runs
  scheduler.BatchDone();
  drainer.join();
  EXPECT_TRUE(drained);
}

TEST(Scheduler, DrainGivesUpAtItsDeadline) {
  FakeClock clock;
  Scheduler scheduler({}, &clock);
  ASSERT_TRUE(scheduler.Enqueue(MakeTestJob({})).ok());
  const absl::Time deadline = clock.Now() + absl::Seconds(10);
  bool drained = true;
  std::thread drainer([&] { drained = scheduler.Drain(deadline); });
  clock.AwaitWaiter(deadline);
  clock.Advance(absl::Seconds(10));
  drainer.join();
  EXPECT_FALSE(drained);
}

TEST(Scheduler, AbortFinishesEverythingThatWaits) {
  FakeClock clock;
  Scheduler scheduler({}, &clock);
  std::vector<TestJobPtr> jobs;
  for (int i = 0; i < 10; ++i) {
    jobs.push_back(MakeTestJob({.key = TestKey(i % 2), .tenant = absl::StrCat(i % 3)}));
    ASSERT_TRUE(scheduler.Enqueue(jobs.back()).ok());
  }
  scheduler.Abort(absl::UnavailableError("device lost"));
  for (const TestJobPtr& job : jobs) {
    EXPECT_EQ(job->status, absl::UnavailableError("device lost"));
    EXPECT_EQ(job->where, Job::State::kQueued);
  }
  EXPECT_EQ(scheduler.queued_jobs(), 0);
  EXPECT_TRUE(scheduler.Enqueue(MakeTestJob({})).ok()) << "aborting does not close";
}

TEST(Scheduler, DestructorLeavesNoJobUnanswered) {
  FakeClock clock;
  const TestJobPtr job = MakeTestJob({});
  {
    Scheduler scheduler({}, &clock);
    ASSERT_TRUE(scheduler.Enqueue(job).ok());
  }
  EXPECT_EQ(job->status.code(), absl::StatusCode::kUnavailable);
}

// Each of these would deadlock, or trip the mutex's own check, if a job were finished under the scheduler's lock.
TEST(Scheduler, FinishesJobsWithNoLockHeld) {
  FakeClock clock;
  Scheduler scheduler({}, &clock);
  int called = 0;
  auto enqueue = [&](absl::Duration timeout) {
    const TestJobPtr job = MakeTestJob({.deadline = clock.Now() + timeout});
    job->on_done = [&] { called += scheduler.queued_jobs() >= 0 ? 1 : 0; };
    ASSERT_TRUE(scheduler.Enqueue(job).ok());
  };
  enqueue(absl::Seconds(1));
  enqueue(absl::Seconds(5));
  clock.Advance(absl::Seconds(1));
  scheduler.TakeBatch();
  enqueue(absl::Seconds(1));
  clock.Advance(absl::Seconds(1));
  scheduler.ExpireOverdue();
  enqueue(absl::Seconds(1));
  scheduler.Abort(absl::UnavailableError(""));
  EXPECT_EQ(called, 3);
}

TEST(Scheduler, RetryAfterIsTheTimeToEmptyTheQueue) {
  FakeClock clock;
  SchedulerOptions options;
  options.max_batch_jobs = 1;
  Scheduler scheduler(options, &clock);
  EXPECT_EQ(scheduler.RetryAfter(), absl::Milliseconds(100)) << "nothing is known yet";
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(scheduler.Enqueue(MakeTestJob("a", 100)).ok());
  EXPECT_EQ(scheduler.TakeBatch().size(), 1u);
  clock.Advance(absl::Milliseconds(20));
  scheduler.BatchDone();
  EXPECT_NEAR(absl::ToDoubleMilliseconds(scheduler.RetryAfter()), 60, 0.1);
  EXPECT_EQ(scheduler.TakeBatch().size(), 1u);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(scheduler.RetryAfter()), 60, 0.1) << "what runs takes its time, too";
  const TestJobPtr expected = MakeTestJob("a", 200);
  ASSERT_TRUE(scheduler.Expect(*expected).ok());
  EXPECT_NEAR(absl::ToDoubleMilliseconds(scheduler.RetryAfter()), 100, 0.1) << "what is expected is work, too";
  expected->Finish(absl::CancelledError(""));
  scheduler.Forget(*expected);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(scheduler.RetryAfter()), 60, 0.1);
  ASSERT_TRUE(scheduler.Enqueue(MakeTestJob("a", 1000000)).ok());
  EXPECT_EQ(scheduler.RetryAfter(), absl::Seconds(5));
  scheduler.Abort(absl::CancelledError(""));
  scheduler.BatchDone();
  EXPECT_EQ(scheduler.RetryAfter(), absl::Milliseconds(1));
}

}  // namespace
}  // namespace tessera
