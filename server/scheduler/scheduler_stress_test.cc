// Everything at once, on the real clock: jobs are cancelled, expire, run and are aborted from many threads. What must
// hold in every interleaving is that each job ends exactly once and that nothing is left behind.
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "server/scheduler/scheduler.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

struct Tally {
  std::atomic<int> ended{0};
  std::array<std::atomic<int>, 17> by_code{};
  std::array<std::atomic<int>, 5> by_state{};

  int count(absl::StatusCode code) const { return by_code[static_cast<size_t>(code)]; }
};

class CountedJob final : public Job {
 public:
  CountedJob(Traits job_traits, Tally* tally) : Job(std::move(job_traits)), tally_(tally) {}
  ~CountedJob() override { EXPECT_EQ(times_done_, 1); }

 private:
  void OnDone(const absl::Status& status, State where) override {
    ++times_done_;
    ++tally_->ended;
    ++tally_->by_code[static_cast<size_t>(status.code())];
    ++tally_->by_state[static_cast<size_t>(where)];
  }

  Tally* const tally_;
  std::atomic<int> times_done_{0};
};

// Jobs that producers hand to cancellers.
class Exchange {
 public:
  void Put(JobPtr job) {
    absl::MutexLock lock(&mutex_);
    jobs_.push_back(std::move(job));
  }
  // A job put in at random, or null.
  JobPtr Take(std::mt19937* random) {
    absl::MutexLock lock(&mutex_);
    if (jobs_.empty()) return nullptr;
    std::swap(jobs_[(*random)() % jobs_.size()], jobs_.back());
    JobPtr job = std::move(jobs_.back());
    jobs_.pop_back();
    return job;
  }

 private:
  absl::Mutex mutex_;
  std::vector<JobPtr> jobs_;
};

TEST(SchedulerStress, EveryJobEndsOnce) {
  constexpr int kProducers = 3;
  constexpr int kJobsEach = 4000;
  const uint64_t seed = tessera::RandomSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  SchedulerOptions options;
  options.max_queue_jobs = 300;
  options.max_batch_jobs = 8;
  options.large_cost = 50;
  options.fair_quantum = 20;
  options.batch_delay = absl::Microseconds(50);
  Tally tally;
  Scheduler scheduler(options, Clock::Real());
  Exchange exchange;
  std::atomic<bool> stop{false};

  auto produce = [&](unsigned number) {
    std::mt19937 random(seed + number);
    for (int i = 0; i < kJobsEach; ++i) {
      const bool hurried = random() % 3 == 0;
      auto job = std::make_shared<CountedJob>(
          Job::Traits{.key = {{random() % 3}},
                      .tenant = absl::StrCat(random() % 4),
                      .priority = static_cast<JobPriority>(random() % 3),
                      .cost = static_cast<int64_t>(1 + random() % 60),
                      .bytes = 1,
                      .tokens = 1,
                      .deadline = hurried ? Clock::Real()->Now() + absl::Microseconds(random() % 2000)
                                          : absl::InfiniteFuture()},
          &tally);
      if (random() % 2 == 0) exchange.Put(job);                       // may be cancelled even before it is queued
      if (i == kJobsEach / 2) job->Finish(absl::CancelledError(""));  // is, however slow the canceller
      if (const absl::Status status = scheduler.Enqueue(job); !status.ok()) job->Finish(status);
    }
  };
  auto cancel = [&] {
    std::mt19937 random(seed + 100);
    while (!stop) {
      const JobPtr job = exchange.Take(&random);
      if (job == nullptr) {
        std::this_thread::yield();
      } else if (job->Finish(absl::CancelledError(""))) {
        scheduler.Forget(*job);
      }
    }
  };
  auto execute = [&] {
    for (std::vector<JobPtr> batch; !(batch = scheduler.TakeBatch()).empty(); scheduler.BatchDone()) {
      for (const JobPtr& job : batch) {
        EXPECT_EQ(job->traits().key, batch[0]->traits().key);
        job->Advance(Job::State::kBatched, Job::State::kRunning);
      }
      for (const JobPtr& job : batch) job->Finish(absl::OkStatus());
    }
  };
  auto sweep = [&] {
    while (!stop) {
      scheduler.ExpireOverdue();
      scheduler.RetryAfter();
      std::this_thread::yield();
    }
  };

  std::vector<std::thread> producers;
  std::vector<std::thread> others;
  for (unsigned i = 0; i < kProducers; ++i) producers.emplace_back(produce, i);
  others.emplace_back(cancel);
  others.emplace_back(sweep);
  others.emplace_back(execute);
  others.emplace_back(execute);
  for (std::thread& producer : producers) producer.join();
  EXPECT_TRUE(scheduler.Drain(Clock::Real()->Now() + absl::Seconds(60)));
  scheduler.Close();
  scheduler.Abort(absl::UnavailableError(""));
  stop = true;
  for (std::thread& other : others) other.join();

  EXPECT_EQ(scheduler.queued_jobs(), 0);
  EXPECT_EQ(scheduler.queued_bytes(), 0);
  EXPECT_EQ(tally.ended, kProducers * kJobsEach);
  EXPECT_GT(tally.count(absl::StatusCode::kOk), 0);
  EXPECT_GT(tally.count(absl::StatusCode::kCancelled), 0);
}

}  // namespace
}  // namespace tessera
