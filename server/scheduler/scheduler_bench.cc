// Jobs a second through the scheduler, one thread, full queue: what a batch costs must not depend on what else waits.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "server/scheduler/scheduler.h"

namespace tessera {
namespace {

class QuietJob final : public Job {
 public:
  using Job::Job;

 private:
  void OnDone(const absl::Status&, State) override {}
};

JobPtr MakeJob(int64_t number, int64_t tenants, int64_t keys) {
  return std::make_shared<QuietJob>(Job::Traits{
      .key = {{static_cast<uint64_t>(number % keys)}},
      .tenant = absl::StrCat("tenant-", number % tenants),
      .cost = 1 << 20,
      .bytes = 32768,
      .tokens = 2,
      .deadline = Clock::Real()->Now() + absl::Seconds(60),
  });
}

// Args: jobs waiting, tenants, keys, max_batch_jobs.
void BM_EnqueueAndTake(benchmark::State& state) {
  SchedulerOptions options;
  options.max_queue_jobs = state.range(0) + options.max_batch_jobs;
  options.max_batch_jobs = state.range(3);
  Scheduler scheduler(options, Clock::Real());
  int64_t number = 0;
  for (; number < state.range(0); ++number) {
    if (!scheduler.Enqueue(MakeJob(number, state.range(1), state.range(2))).ok()) state.SkipWithError("queue full");
  }
  int64_t jobs = 0;
  for (auto _ : state) {
    const std::vector<JobPtr> batch = scheduler.TakeBatch();
    for (size_t i = 0; i < batch.size(); ++i) {
      if (!scheduler.Enqueue(MakeJob(number++, state.range(1), state.range(2))).ok()) state.SkipWithError("queue full");
    }
    for (const JobPtr& job : batch) job->Finish(absl::OkStatus());
    scheduler.BatchDone();
    jobs += static_cast<int64_t>(batch.size());
  }
  state.SetItemsProcessed(jobs);
}
BENCHMARK(BM_EnqueueAndTake)
    ->ArgNames({"waiting", "tenants", "keys", "batch"})
    ->Args({1, 1, 1, 1})
    ->Args({1000, 1, 1, 1})
    ->Args({1000, 1, 1, 256})
    ->Args({1000, 100, 1, 256})
    ->Args({1000, 100, 50, 256})
    ->Args({100000, 100, 50, 256})
    ->Args({100000, 10000, 1000, 256});

}  // namespace
}  // namespace tessera
