#include "server/request/page_spills.h"

#include <optional>
#include <utility>

#include "server/cache/cache_step.h"
#include "server/request/extend_job.h"

namespace tessera {

bool PageSpills::Await(const ExtendJob& call, int64_t missing, const EnqueueFn& enqueue, RetryFn retry) {
  {
    // Before the cache says of any sequence that it is being moved, so that whoever hears so can wait.
    absl::MutexLock lock(&mutex_);
    ++under_way_;
  }
  std::optional<CacheStep> step = call.cache().sequences().Spill(missing);
  if (!step.has_value()) {
    std::vector<RetryFn> ready;
    {
      absl::MutexLock lock(&mutex_);
      if (--under_way_ > 0) {
        waiting_.push_back(std::move(retry));
        return true;
      }
      ready.swap(waiting_);  // who came meanwhile and took this for a move
    }
    for (const RetryFn& other : ready) other();
    return false;
  }
  {
    absl::MutexLock lock(&mutex_);
    waiting_.push_back(std::move(retry));
  }
  // The job keeps the cache.
  const auto job = ExtendJob::OfCopies(call.shared_cache(), *std::move(step), call.traits().tenant,
                                       call.traits().priority, [this](const absl::Status&, Job::State) { Ended(); });
  if (const absl::Status queued = enqueue(job); !queued.ok()) job->Finish(queued);
  return true;
}

void PageSpills::Ended() {
  std::vector<RetryFn> ready;
  {
    absl::MutexLock lock(&mutex_);
    --under_way_;
    ready.swap(waiting_);
  }
  for (const RetryFn& retry : ready) retry();
}

}  // namespace tessera
