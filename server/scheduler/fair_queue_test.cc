#include "server/scheduler/fair_queue.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/scheduler/scheduler_test_job.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

using testing::ElementsAre;

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(1);

FairQueue::Options SmallOptions() {
  return {.max_jobs = 100000, .max_bytes = 1 << 30, .max_tenant_share = 1, .large_cost = 1000, .quantum = 10};
}

constexpr FairQueue::BatchLimits kOneByOne = {.jobs = 1, .tokens = 1 << 20, .cost = 1 << 20};
constexpr FairQueue::BatchLimits kWide = {.jobs = 1 << 20, .tokens = 1 << 20, .cost = 1 << 30};

// Empties itself, so that a failed test does not die of the destructor's check.
struct Queue : FairQueue {
  explicit Queue(const Options& options = SmallOptions()) : FairQueue(options) {}
  ~Queue() { TakeAll(); }
};

std::vector<std::string> Tenants(const std::vector<JobPtr>& jobs) {
  std::vector<std::string> tenants;
  for (const JobPtr& job : jobs) tenants.push_back(job->traits().tenant);
  return tenants;
}

TEST(FairQueue, OneTenantIsServedInOrderOfArrival) {
  Queue queue;
  std::vector<JobPtr> sent;
  for (int i = 0; i < 20; ++i) {
    sent.push_back(MakeTestJob("a", 1 + i % 7, /*key=*/i % 3));
    ASSERT_TRUE(queue.Push(sent.back(), kNow).ok());
  }
  for (const JobPtr& job : sent) EXPECT_THAT(queue.Take(kOneByOne, kNow, false).jobs, ElementsAre(job));
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueue, IsBoundedInJobs) {
  FairQueue::Options options = SmallOptions();
  options.max_jobs = 2;
  Queue queue(options);
  EXPECT_TRUE(queue.Push(MakeTestJob("a", 1), kNow).ok());
  EXPECT_TRUE(queue.Push(MakeTestJob("b", 1), kNow).ok());
  const TestJobPtr third = MakeTestJob("c", 1);
  EXPECT_EQ(queue.Push(third, kNow).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(third->state(), Job::State::kCreated) << "a refused job is untouched";
  queue.Take(kOneByOne, kNow, false);
  EXPECT_TRUE(queue.Push(third, kNow).ok());
}

TEST(FairQueue, IsBoundedInBytes) {
  FairQueue::Options options = SmallOptions();
  options.max_bytes = 100;
  Queue queue(options);
  EXPECT_EQ(queue.Push(MakeTestJob({.bytes = 101}), kNow).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(queue.Push(MakeTestJob({.bytes = 60}), kNow).ok());
  EXPECT_EQ(queue.Push(MakeTestJob({.bytes = 41}), kNow).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(queue.Push(MakeTestJob({.bytes = 40}), kNow).ok());
  EXPECT_EQ(queue.bytes(), 100);
}

TEST(FairQueue, OneTenantMayFillItsShareOnly) {
  FairQueue::Options options = SmallOptions();
  options.max_jobs = 10;
  options.max_bytes = 100;
  options.max_tenant_share = 0.5;
  Queue queue(options);
  EXPECT_EQ(queue.Push(MakeTestJob({.tenant = "a", .bytes = 51}), kNow).code(), absl::StatusCode::kInvalidArgument);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(queue.Push(MakeTestJob({.tenant = "a", .bytes = 1}), kNow).ok());
  EXPECT_EQ(queue.Push(MakeTestJob({.tenant = "a"}), kNow).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(queue.Push(MakeTestJob({.tenant = "b", .bytes = 40}), kNow).ok());
  EXPECT_EQ(queue.Push(MakeTestJob({.tenant = "b", .bytes = 11}), kNow).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(queue.Push(MakeTestJob({.tenant = "b", .bytes = 10}), kNow).ok());
}

TEST(FairQueue, ExpectedJobsCountAgainstTheBoundsOnly) {
  FairQueue::Options options = SmallOptions();
  options.max_jobs = 3;
  options.max_bytes = 100;
  Queue queue(options);
  const TestJobPtr first = MakeTestJob({.tenant = "a", .bytes = 60}), large = MakeTestJob({.tenant = "b", .bytes = 41}),
                   second = MakeTestJob({.tenant = "b", .bytes = 10}), third = MakeTestJob({.tenant = "c"}),
                   fourth = MakeTestJob({.tenant = "d"});
  ASSERT_TRUE(queue.Expect(*first).ok());
  EXPECT_EQ(queue.Expect(*large).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(queue.Push(large, kNow).code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(queue.Expect(*second).ok());
  ASSERT_TRUE(queue.Push(third, kNow).ok());
  EXPECT_EQ(queue.Push(fourth, kNow).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(queue.expected_jobs(), 2);
  EXPECT_EQ(queue.expected_bytes(), 70);
  EXPECT_EQ(queue.jobs(), 1);
  EXPECT_THAT(Tenants(queue.Take(kWide, kNow, false).jobs), ElementsAre("c"));
  ASSERT_TRUE(queue.Push(fourth, kNow).ok());
  EXPECT_TRUE(queue.Push(first, kNow).ok()) << "the queue is full, but this one has its room";
  EXPECT_EQ(first->state(), Job::State::kQueued);
  EXPECT_EQ(queue.Remove(*second), nullptr);
  EXPECT_EQ(queue.expected_jobs(), 0);
  EXPECT_EQ(queue.expected_bytes(), 0);
  EXPECT_TRUE(queue.Push(MakeTestJob({.tenant = "e", .bytes = 40}), kNow).ok());
}

TEST(FairQueue, OneTenantsExpectedJobsAreWithinItsShare) {
  FairQueue::Options options = SmallOptions();
  options.max_jobs = 4;
  options.max_tenant_share = 0.5;
  Queue queue(options);
  const TestJobPtr one = MakeTestJob({.tenant = "a"}), two = MakeTestJob({.tenant = "a"}),
                   three = MakeTestJob({.tenant = "a"});
  ASSERT_TRUE(queue.Expect(*one).ok());
  ASSERT_TRUE(queue.Push(two, kNow).ok());
  EXPECT_EQ(queue.Expect(*three).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(queue.Push(three, kNow).code(), absl::StatusCode::kResourceExhausted);
  queue.Take(kWide, kNow, false);
  EXPECT_EQ(queue.flows(), 0u);
  ASSERT_TRUE(queue.Push(three, kNow).ok()) << "of a tenant that is known by its expected job alone";
  EXPECT_EQ(queue.Push(MakeTestJob({.tenant = "a"}), kNow).code(), absl::StatusCode::kResourceExhausted);
  queue.Remove(*one);
  EXPECT_TRUE(queue.Push(MakeTestJob({.tenant = "a"}), kNow).ok());
}

TEST(FairQueue, HigherPriorityGoesFirst) {
  Queue queue;
  for (const JobPriority priority : {JobPriority::kLow, JobPriority::kHigh, JobPriority::kNormal}) {
    const auto name = absl::StrCat(static_cast<int>(priority));
    ASSERT_TRUE(queue.Push(MakeTestJob({.tenant = name, .priority = priority}), kNow).ok());
  }
  EXPECT_THAT(Tenants(queue.Take(kOneByOne, kNow, false).jobs), ElementsAre("2"));
  EXPECT_THAT(Tenants(queue.Take(kOneByOne, kNow, false).jobs), ElementsAre("1"));
  EXPECT_THAT(Tenants(queue.Take(kOneByOne, kNow, false).jobs), ElementsAre("0"));
}

TEST(FairQueue, BatchTakesEqualKeysInOrderOfService) {
  Queue queue;
  auto push = [&](std::string tenant, uint64_t key, JobPriority priority) {
    ASSERT_TRUE(queue.Push(MakeTestJob({.key = TestKey(key), .tenant = tenant, .priority = priority}), kNow).ok());
  };
  push("low", 1, JobPriority::kLow);
  push("other", 2, JobPriority::kNormal);
  push("normal", 1, JobPriority::kNormal);
  push("high", 1, JobPriority::kHigh);
  push("normal", 1, JobPriority::kNormal);
  const FairQueue::Batch batch = queue.Take(kWide, kNow, false);
  EXPECT_THAT(Tenants(batch.jobs), ElementsAre("high", "normal", "normal", "low"));
  for (const JobPtr& job : batch.jobs) EXPECT_EQ(job->state(), Job::State::kBatched);
  EXPECT_THAT(Tenants(queue.Take(kWide, kNow, false).jobs), ElementsAre("other"));
}

TEST(FairQueue, BatchEndsAtTheFirstJobThatDoesNotFit) {
  for (const auto& [limits, size] : std::vector<std::pair<FairQueue::BatchLimits, size_t>>{
           {{.jobs = 3, .tokens = 1000, .cost = 1000}, 3},
           {{.jobs = 100, .tokens = 45, .cost = 1000}, 4},
           {{.jobs = 100, .tokens = 1000, .cost = 10}, 5},
           {{.jobs = 100, .tokens = 1000, .cost = 1000}, 6},
           {{.jobs = 100, .tokens = 1000, .cost = 1000, .sequences = 9}, 2},
           {{.jobs = 100, .tokens = 1, .cost = 1}, 1}}) {  // a job above the limits runs alone
    Queue queue;
    for (int i = 0; i < 6; ++i)
      ASSERT_TRUE(queue.Push(MakeTestJob({.cost = 2, .tokens = 10, .sequences = 4}), kNow).ok());
    const FairQueue::Batch batch = queue.Take(limits, kNow, false);
    EXPECT_EQ(batch.jobs.size(), size);
    EXPECT_EQ(batch.tokens, static_cast<int64_t>(10 * size));
    EXPECT_EQ(batch.cost, static_cast<int64_t>(2 * size));
  }
}

TEST(FairQueue, LargeAndSmallNeverShareABatch) {
  Queue queue;
  for (const int64_t cost : {1000, 1, 1000, 999}) ASSERT_TRUE(queue.Push(MakeTestJob("a", cost), kNow).ok());
  const FairQueue::Batch large = queue.Take(kWide, kNow, false);
  EXPECT_TRUE(large.large);
  EXPECT_EQ(large.cost, 2000);
  const FairQueue::Batch small = queue.Take(kWide, kNow, false);
  EXPECT_FALSE(small.large);
  EXPECT_EQ(small.cost, 1000);
}

TEST(FairQueue, SmallFirstOverridesArrivalAndPriority) {
  Queue queue;
  ASSERT_TRUE(queue.Push(MakeTestJob({.tenant = "large", .priority = JobPriority::kHigh, .cost = 5000}), kNow).ok());
  ASSERT_TRUE(queue.Push(MakeTestJob({.tenant = "small", .priority = JobPriority::kLow, .cost = 1}), kNow).ok());
  EXPECT_THAT(Tenants(queue.Take(kOneByOne, kNow, true).jobs), ElementsAre("small"));
  EXPECT_THAT(Tenants(queue.Take(kOneByOne, kNow, true).jobs), ElementsAre("large"));
}

// Tenants that always have work get equal shares of cost, however large or many their jobs, with keys of their own or
// one in common, whatever the batches.
TEST(FairQueue, BackloggedTenantsGetEqualCost) {
  const std::vector<int64_t> job_costs = {1, 7, 60, 200};
  for (const bool one_key : {false, true}) {
    for (const int64_t batch_jobs : {1, 5, 64}) {
      SCOPED_TRACE(absl::StrCat("one key ", one_key, ", batches of ", batch_jobs));
      Queue queue;
      std::map<std::string, int64_t> served;
      auto push = [&](size_t tenant) {
        ASSERT_TRUE(queue.Push(MakeTestJob(absl::StrCat(tenant), job_costs[tenant], one_key ? 0 : tenant), kNow).ok());
      };
      for (size_t tenant = 0; tenant < job_costs.size(); ++tenant) {
        for (size_t i = 0; i < 80 / (tenant + 1); ++i) push(tenant);
      }
      int64_t total = 0;
      while (total < 200000) {
        const FairQueue::Batch batch = queue.Take({.jobs = batch_jobs, .tokens = 1, .cost = 1 << 30}, kNow, false);
        ASSERT_FALSE(batch.jobs.empty());
        total += batch.cost;
        for (const JobPtr& job : batch.jobs) {
          served[job->traits().tenant] += job->traits().cost;
          push(std::stoul(job->traits().tenant));
        }
      }
      // A batch of one's own may exceed the share before it is paid back, by its own cost.
      const int64_t slack = 2 * (batch_jobs * job_costs.back() + 10);
      for (const auto& [tenant, cost] : served) EXPECT_NEAR(cost, total / 4, slack) << "tenant " << tenant;
    }
  }
}

// A tenant that sends its next job when the last one ends has no job waiting at times; its debt must not be forgotten,
// nor may it come first for ever by staying just within a round's quantum.
TEST(FairQueue, OneJobAtATimeGetsNoMoreThanItsShare) {
  for (const int64_t cost : {9, 100}) {
    Queue queue;
    int64_t served_single = 0;
    int64_t served_backlog = 0;
    ASSERT_TRUE(queue.Push(MakeTestJob("single", cost, 1), kNow).ok());
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(queue.Push(MakeTestJob("backlog", 1), kNow).ok());
    while (served_single + served_backlog < 20000) {
      const FairQueue::Batch batch = queue.Take(kOneByOne, kNow, false);
      ASSERT_EQ(batch.jobs.size(), 1u);
      if (batch.jobs[0]->traits().tenant == "single") {
        served_single += cost;
        ASSERT_TRUE(queue.Push(MakeTestJob("single", cost, 1), kNow).ok());
      } else {
        served_backlog += 1;
        ASSERT_TRUE(queue.Push(MakeTestJob("backlog", 1), kNow).ok());
      }
    }
    EXPECT_NEAR(served_single, served_backlog, 2 * (cost + 10)) << "job cost " << cost;
  }
}

TEST(FairQueue, NewcomerNeitherWaitsForOldDebtsNorCollectsOldCredit) {
  Queue queue;
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(queue.Push(MakeTestJob("old", 10), kNow).ok());
  for (int i = 0; i < 500; ++i) queue.Take(kOneByOne, kNow, false);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(queue.Push(MakeTestJob("new", 10), kNow).ok());
  int served_new = 0;
  for (int i = 0; i < 100; ++i) served_new += Tenants(queue.Take(kOneByOne, kNow, false).jobs)[0] == "new" ? 1 : 0;
  EXPECT_NEAR(served_new, 50, 2);
}

TEST(FairQueue, RemovedJobIsGone) {
  Queue queue;
  const TestJobPtr kept = MakeTestJob({.tokens = 1});
  const TestJobPtr removed = MakeTestJob({.bytes = 7, .tokens = 2, .deadline = kNow + absl::Seconds(1)});
  const TestJobPtr last = MakeTestJob({.tokens = 3});
  for (const TestJobPtr& job : {kept, removed, last}) ASSERT_TRUE(queue.Push(job, kNow).ok());
  EXPECT_EQ(queue.Remove(*removed), removed);
  EXPECT_EQ(queue.Remove(*removed), nullptr);
  EXPECT_EQ(queue.jobs(), 2);
  EXPECT_EQ(queue.bytes(), 0);
  EXPECT_EQ(queue.next_deadline(), absl::InfiniteFuture());
  EXPECT_THAT(queue.Take(kWide, kNow, false).jobs, ElementsAre(kept, last));
  EXPECT_EQ(removed.use_count(), 1) << "the queue holds no reference";
}

TEST(FairQueue, ExpiredAndEndedJobsAreSetAsideUncharged) {
  Queue queue;
  const TestJobPtr expired = MakeTestJob({.tenant = "a", .cost = 500, .deadline = kNow});
  const TestJobPtr ended = MakeTestJob({.tenant = "a", .cost = 500});
  const TestJobPtr first = MakeTestJob({.tenant = "a", .cost = 5, .deadline = kNow + absl::Nanoseconds(1)});
  const TestJobPtr other = MakeTestJob({.key = TestKey(1), .tenant = "b", .cost = 5});
  for (const TestJobPtr& job : {expired, ended, first, other}) {
    ASSERT_TRUE(queue.Push(job, kNow - absl::Seconds(1)).ok());
  }
  ended->Finish(absl::CancelledError(""));
  const FairQueue::Batch batch = queue.Take(kOneByOne, kNow, false);
  EXPECT_THAT(batch.jobs, ElementsAre(first)) << "tenant a owes nothing for what was not run";
  EXPECT_THAT(batch.expired, ElementsAre(expired));
  EXPECT_THAT(batch.ended, ElementsAre(ended));
  EXPECT_EQ(expired->times_done, 0) << "ending jobs is the caller's part";
  EXPECT_EQ(queue.jobs(), 1);
}

TEST(FairQueue, EndedJobIsNotTakenIn) {
  Queue queue;
  const TestJobPtr job = MakeTestJob("a", 1);
  job->Finish(absl::CancelledError(""));
  EXPECT_EQ(queue.Push(job, kNow).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueue, OverdueJobsLeaveEarliestFirstAFewAtATime) {
  Queue queue;
  std::vector<JobPtr> jobs;
  for (const int seconds : {3, 1, 2, 9}) {
    jobs.push_back(MakeTestJob({.deadline = kNow + absl::Seconds(seconds)}));
    ASSERT_TRUE(queue.Push(jobs.back(), kNow).ok());
  }
  EXPECT_THAT(queue.TakeExpired(kNow + absl::Seconds(3), 2), ElementsAre(jobs[1], jobs[2]));
  EXPECT_THAT(queue.TakeExpired(kNow + absl::Seconds(3), 2), ElementsAre(jobs[0]));
  EXPECT_EQ(queue.next_deadline(), kNow + absl::Seconds(9));
}

TEST(FairQueue, ForgetsTenantsOnceTheyAreSettled) {
  Queue queue;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(queue.Push(MakeTestJob(absl::StrCat("t", i), 1, i), kNow).ok());
  EXPECT_EQ(queue.flows(), 100u);
  while (!queue.empty()) queue.Take(kOneByOne, kNow, false);
  EXPECT_EQ(queue.flows(), 0u);
}

// A stream of tenants that come once must not leave accounts behind while another tenant keeps the queue busy.
TEST(FairQueue, AccountsOfTenantsThatLeftAreBounded) {
  Queue queue;
  ASSERT_TRUE(queue.Push(MakeTestJob("stays", 1 << 20), kNow).ok());
  for (int i = 0; i < 5000; ++i) {
    const TestJobPtr visitor = MakeTestJob(absl::StrCat("t", i), 1);
    ASSERT_TRUE(queue.Push(visitor, kNow).ok());
    ASSERT_NE(queue.Remove(*visitor), nullptr);
    ASSERT_LE(queue.flows(), 1 + FairQueue::kMaxSettling);
  }
}

// Random traffic against a flat list of what waits.
TEST(FairQueue, RandomTrafficKeepsItsPromises) {
  const uint64_t seed = tessera::RandomSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  Queue queue;
  std::vector<TestJobPtr> model;  // in order of arrival
  absl::Time now = kNow;
  auto leave = [&](const JobPtr& job) {
    const auto at = std::find(model.begin(), model.end(), job);
    ASSERT_NE(at, model.end()) << "a job left twice";
    model.erase(at);
  };
  using Stream = std::tuple<std::string, JobPriority, uint64_t, bool>;
  auto stream_of = [](const Job& job) {
    const Job::Traits& traits = job.traits();
    return Stream(traits.tenant, traits.priority, traits.key.words[0], traits.cost >= 1000);
  };
  for (int step = 0; step < 30000; ++step) {
    now += absl::Milliseconds(1);
    const unsigned action = random() % 100;
    if (action < 55) {
      const int64_t cost = random() % 10 == 0 ? 1000 + random() % 3000 : 1 + random() % 40;
      TestJobPtr job = MakeTestJob(
          {.key = TestKey(random() % 3),
           .tenant = absl::StrCat("t", random() % 5),
           .priority = static_cast<JobPriority>(random() % 3),
           .cost = cost,
           .bytes = static_cast<int64_t>(random() % 100),
           .tokens = static_cast<int64_t>(random() % 10),
           .deadline = random() % 4 == 0 ? now + absl::Milliseconds(random() % 200) : absl::InfiniteFuture()});
      ASSERT_TRUE(queue.Push(job, now).ok());
      model.push_back(job);
    } else if (action < 65 && !model.empty()) {
      const TestJobPtr job = model[random() % model.size()];
      job->Finish(absl::CancelledError(""));
      if (random() % 2 == 0) {
        ASSERT_EQ(queue.Remove(*job), job);
        leave(job);
      }
    } else if (action < 70) {
      for (const JobPtr& job : queue.TakeExpired(now, 3)) {
        ASSERT_LE(job->traits().deadline, now);
        leave(job);
      }
    } else {
      const FairQueue::BatchLimits limits = {
          .jobs = 1 + static_cast<int64_t>(random() % 6), .tokens = 20, .cost = 3000};
      const FairQueue::Batch batch = queue.Take(limits, now, random() % 4 == 0);
      ASSERT_LE(batch.jobs.size(), static_cast<size_t>(limits.jobs));
      ASSERT_TRUE(batch.jobs.size() <= 1 || (batch.tokens <= limits.tokens && batch.cost <= limits.cost));
      for (const JobPtr& job : batch.expired) leave(job);
      for (const JobPtr& job : batch.ended) leave(job);
      for (const JobPtr& job : batch.jobs) {
        ASSERT_EQ(job->traits().key, batch.jobs[0]->traits().key);
        ASSERT_EQ(job->traits().cost >= 1000, batch.large);
        const auto earliest = std::find_if(model.begin(), model.end(), [&](const TestJobPtr& waiting) {
          return stream_of(*waiting) == stream_of(*job);
        });
        ASSERT_EQ(*earliest, job) << "overtaken within its own stream";
        leave(job);
      }
      ASSERT_FALSE(batch.jobs.empty() && !model.empty()) << "work waits, but none was given";
    }
    int64_t bytes = 0;
    int64_t tokens = 0;
    for (const TestJobPtr& job : model) {
      bytes += job->traits().bytes;
      tokens += job->traits().tokens;
    }
    ASSERT_EQ(queue.jobs(), static_cast<int64_t>(model.size()));
    ASSERT_EQ(queue.bytes(), bytes);
    ASSERT_EQ(queue.tokens(), tokens);
  }
}

}  // namespace
}  // namespace tessera
