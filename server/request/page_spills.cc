#include "server/request/page_spills.h"

#include <optional>
#include <utility>

#include "server/cache/cache_step.h"
#include "server/request/extend_job.h"

namespace tessera {

bool PageSpills::Await(const ExtendJob& call, int64_t missing, const EnqueueFn& enqueue, RetryFn retry) {
  std::optional<CacheStep> step = call.cache().sequences().Spill(missing);
  {
    absl::MutexLock lock(&mutex_);
    if (!step.has_value() && under_way_ == 0) return false;
    waiting_.push_back(std::move(retry));
    if (!step.has_value()) return true;
    ++under_way_;
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
