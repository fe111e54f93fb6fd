// Calls that find no page free, and the moves of idle sequences to the host that they wait for.
#ifndef TESSERA_SERVER_REQUEST_PAGE_SPILLS_H_
#define TESSERA_SERVER_REQUEST_PAGE_SPILLS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace tessera {

class ExtendJob;

// Of one cache, which outlives the calls that wait. Thread-safe.
class PageSpills {
 public:
  // Scheduler::Enqueue.
  using EnqueueFn = std::function<absl::Status(const std::shared_ptr<ExtendJob>&)>;
  using RetryFn = std::function<void()>;

  // Has `missing` pages (0: none), or as many as can, moved to the host for a call of the cache, and `retry` called
  // when that or another such move has ended, well or not: on the thread that ended it, with no lock held; possibly
  // before this returns. False, and `retry` is not called, where nothing can be moved and nothing is being moved.
  bool Await(const ExtendJob& call, int64_t missing, const EnqueueFn& enqueue, RetryFn retry);

 private:
  void Ended();

  absl::Mutex mutex_;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<RetryFn> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_REQUEST_PAGE_SPILLS_H_
