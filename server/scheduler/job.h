// One unit of work as the scheduler sees it: what it costs, with whom it may share a batch, and how it ends.
//
// A job moves  kCreated -> kQueued -> kBatched -> kRunning -> kDone  and may jump to kDone from anywhere. Whoever moves
// it to kDone decides its one terminal status; every later attempt loses and changes nothing. So completion, deadline,
// cancellation and shutdown race safely: memory is held by reference count, the outcome by the state.
//
// Threading: Advance, Finish, state and traits may be called by any thread at any time.
#ifndef TESSERA_SERVER_SCHEDULER_JOB_H_
#define TESSERA_SERVER_SCHEDULER_JOB_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tessera {

// Jobs whose keys are equal may share a batch. Opaque to the scheduler; distinct kinds of work need distinct keys.
struct BatchKey {
  std::array<uint64_t, 6> words{};

  friend bool operator==(const BatchKey&, const BatchKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const BatchKey& key) {
    return H::combine(std::move(h), key.words);
  }
};

enum class JobPriority : uint8_t { kLow, kNormal, kHigh };
inline constexpr int kJobPriorities = 3;

class Job;
class Scheduler;
using JobPtr = std::shared_ptr<Job>;

class Job {
 public:
  enum class State : uint8_t { kCreated, kQueued, kBatched, kRunning, kDone };

  struct Traits {
    BatchKey key = {};
    std::string tenant = {};  // whose fair share it draws on
    JobPriority priority = JobPriority::kNormal;
    int64_t cost = 1;   // estimated work, > 0; see AttendShape::Cost
    int64_t bytes = 0;  // memory held while it waits
    int64_t tokens = 0;
    int64_t sequences = 1;
    absl::Time deadline = absl::InfiniteFuture();
    int device = kAnyDevice;  // of a SchedulerGroup: the only one that can run it
  };
  static constexpr int kAnyDevice = -1;

  explicit Job(Traits traits) : traits_(std::move(traits)) {}
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  virtual ~Job() = default;

  const Traits& traits() const { return traits_; }
  State state() const { return state_.load(std::memory_order_acquire); }

  // Moves `from` to `to`; false, and no change, where the state is not `from`. REQUIRES: to != kDone.
  bool Advance(State from, State to);

  // Ends the job with `status` unless it has ended already; returns whether this call did. The winner runs OnDone on
  // the calling thread, so call it with no lock held. `where` is the state it was ended in.
  bool Finish(const absl::Status& status);

 protected:
  // What the work is estimated at now. REQUIRES: the job has not been queued, and this thread is the one to queue it.
  void SetCost(int64_t cost) { traits_.cost = cost; }

  // Runs once. `where` is the state the job was in when it ended.
  virtual void OnDone(const absl::Status& status, State where) = 0;

 private:
  friend class FairQueue;
  friend class SchedulerGroup;
  template <int kList>
  friend class JobList;

  // Where the job stands in a FairQueue; written only by the queue, under its owner's lock.
  struct Neighbours {
    Job* before = nullptr;
    Job* after = nullptr;
  };
  struct Place {
    JobPtr self;               // keeps the job alive while it waits; null where it does not
    void* lane = nullptr;      // FairQueue::Lane
    bool expected = false;     // FairQueue::Expect
    double expected_cost = 0;  // then; the job's own may change until it is queued
    uint64_t arrival = 0;      // order of arrival
    absl::Time queued;
    std::array<Neighbours, 3> lists;
  };

  Traits traits_;
  std::atomic<State> state_{State::kCreated};
  std::atomic<Scheduler*> scheduler_{nullptr};  // of a SchedulerGroup, the one it was placed with last
  mutable Place place_;                         // the queue's, not the job's
};

// "created", "queue", "batch", "run", "done": label values.
absl::string_view Name(Job::State state);

}  // namespace tessera

#endif  // TESSERA_SERVER_SCHEDULER_JOB_H_
