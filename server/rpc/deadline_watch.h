// Fires callbacks when a time has come.
#ifndef TESSERA_SERVER_RPC_DEADLINE_WATCH_H_
#define TESSERA_SERVER_RPC_DEADLINE_WATCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/clock/clock.h"

namespace tessera {

// One thread, asleep until the earliest deadline. Thread-safe. Callbacks run on that thread, one after the other, with
// no lock held; they must be quick.
class DeadlineWatch {
 public:
  // Names one entry; unique for the watch's life.
  using Token = std::pair<absl::Time, uint64_t>;

  // `clock` outlives the watch.
  explicit DeadlineWatch(Clock* clock);
  DeadlineWatch(const DeadlineWatch&) = delete;
  DeadlineWatch& operator=(const DeadlineWatch&) = delete;
  ~DeadlineWatch() { Stop(); }

  // Drops what has not fired; no callback runs after this returns, nor is one ever again. REQUIRES: not called from a
  // callback, nor by two threads at once.
  void Stop();

  // Does nothing but name an entry once stopped.
  Token Add(absl::Time deadline, std::function<void()> fire);
  // Harmless for an entry that has fired. The callback may be running still when this returns.
  void Remove(const Token& token);

 private:
  void Run();

  Clock* const clock_;
  absl::Mutex mutex_;
  // By deadline, then age.
  std::map<Token, std::function<void()>> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_DEADLINE_WATCH_H_
