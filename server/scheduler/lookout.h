// An executor with nothing to do looks for work for a moment before it sleeps: waking a thread takes longer than the
// next call of a caller who waits for each answer. Meanwhile it also calls what brings that work: on the processor that
// it keeps awake, code and data of the last call are in the caches, as they are not where the next one is read.
#ifndef TESSERA_SERVER_SCHEDULER_LOOKOUT_H_
#define TESSERA_SERVER_SCHEDULER_LOOKOUT_H_

#include <atomic>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace tessera {

// One executor looks at a time. It is not worth a core where nothing comes that soon: after kMisses looks in a row that
// saw nothing, the next kRests are left out. Thread-safe.
class Lookout {
 public:
  static constexpr int kMisses = 4;
  static constexpr int kRests = 256;

  // Of a look; 0: there are none.
  explicit Lookout(absl::Duration longest) : longest_(longest) {}
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;

  // Work has come.
  void Arrived() { arrivals_.fetch_add(1, std::memory_order_release); }

  // Has whoever looks call `task`, and returns when it has; false where nobody looks, takes none, or is busy with
  // another's. Work that comes meanwhile waits for it, so it is to be short: one task at most for each piece of work.
  // Any thread, but not from within a task. The task must not throw, nor wait for what needs an executor, or a lock
  // that the caller holds.
  bool Hand(absl::FunctionRef<void()> task);

  // Whether the caller is to look, now that there is no work; then it must. REQUIRES: no work comes meanwhile.
  bool Begin();
  // Returns when work comes, or `longest` later, by the real time: what it saves is a thread's wake-up. Takes tasks if
  // asked to: where many bring work at once they are better called side by side.
  void Look(bool take_tasks);
  // After a look, once the caller holds the lock under which it takes what has come: until then nobody else is to be
  // woken for it.
  void End() { looking_.store(false, std::memory_order_release); }
  // Somebody looks, and will take what comes.
  bool looking() const { return looking_.load(std::memory_order_acquire); }

 private:
  struct Task {
    const absl::FunctionRef<void()>* call = nullptr;
    std::atomic<bool> done = false;
  };

  // Takes no more tasks, and calls the one that has been handed over, if one has. Whether one has.
  bool CallLastTask();

  const absl::Duration longest_;
  std::atomic<uint64_t> arrivals_ = 0;
  std::atomic<bool> looking_ = false;
  Task closed_;                         // stands for none that may be handed over
  std::atomic<Task*> task_ = &closed_;  // null: one may be
  // Whoever looks owns these.
  uint64_t seen_ = 0;
  int misses_ = 0;
  int rests_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_SCHEDULER_LOOKOUT_H_
