// How many calls are under way, for those who must not go before the last has ended.
#ifndef TESSERA_CLIENT_CPP_TESSERA_CALL_COUNT_H_
#define TESSERA_CLIENT_CPP_TESSERA_CALL_COUNT_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tessera {

// Thread-safe.
class CallCount {
 public:
  void Add() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ++calls_;
  }
  void Remove() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --calls_;
  }
  void AwaitNone() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &CallCount::None));
  }

 private:
  bool None() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_ == 0; }

  absl::Mutex mutex_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_CALL_COUNT_H_
