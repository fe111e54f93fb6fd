// Whose turn it is on a sequence: calls that name the same one are done one after the other, as they came.
#ifndef TESSERA_SERVER_REQUEST_SEQUENCE_TURNS_H_
#define TESSERA_SERVER_REQUEST_SEQUENCE_TURNS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "server/cache/sequence_handle.h"

namespace tessera {

// Every sequence has a line, and a call joins the lines of all sequences that it names at once: of two calls the one
// that came first is before the other in every line that both stand in, so that no two wait for each other. A call has
// its turn when it is the first in all of its lines. Until then it may leave them.
//
// Names are not looked at: whether there is such a sequence shows when the turn has come. Thread-safe. Outlives its
// turns.
class SequenceTurns {
 public:
  // Given back by the destructor, on any thread; calls that have waited for it start there. Movable, not copyable.
  class Turn {
   public:
    Turn() = default;
    Turn(Turn&& other) noexcept;
    Turn& operator=(Turn&& other) noexcept;
    ~Turn() { GiveBack(); }

    void GiveBack();

   private:
    friend class SequenceTurns;
    Turn(SequenceTurns* turns, uint64_t place) : turns_(turns), place_(place) {}

    SequenceTurns* turns_ = nullptr;
    uint64_t place_ = 0;
  };

  // Where a call stands: what it joins with is what it leaves by.
  class Place {
   public:
    Place() = default;
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    friend class SequenceTurns;
    uint64_t number_ = 0;  // under the lock of the SequenceTurns that it joins; 0: it has joined none
  };

  // Called once, unless the call leaves before: with the turn when it has come, or with the status that End or Close
  // was given. With no lock held, on the thread that joins, gives a turn back, leaves or ends, before that returns; or,
  // where that happens within another start, after this one, so that a long line of short turns is no deep recursion.
  using StartFn = std::function<void(absl::StatusOr<Turn>)>;

  SequenceTurns() = default;
  SequenceTurns(const SequenceTurns&) = delete;
  SequenceTurns& operator=(const SequenceTurns&) = delete;

  // A sequence may be named more than once. REQUIRES: the place has not joined before, and is there until `start` has
  // been called or let go of.
  void Join(absl::Span<const SequenceHandle> sequences, Place* place, StartFn start);

  // Takes a call that waits out of its lines, as if it had never joined, and lets go of its `start`. Does nothing where
  // it has not joined, or its turn has come or is about to.
  void Leave(const Place& place);

  // Ends everyone who waits in the sequence's line. Who joins it later is not concerned, nor is a turn that has come.
  // REQUIRES: !status.ok().
  void End(const SequenceHandle& sequence, const absl::Status& status);

  // Ends everyone who waits, and who joins later. Turns that have come are not concerned. REQUIRES: !status.ok().
  void Close(const absl::Status& status);

  // Calls in lines, those whose turn it is among them.
  int64_t places() const;

 private:
  struct NameHash {
    size_t operator()(const SequenceHandle& handle) const;
  };
  struct Caller {
    std::vector<SequenceHandle> sequences;  // each once
    int64_t lines_ahead = 0;                // in which it is not the first
    StartFn start;                          // null once its turn has come
  };
  struct Ready {
    SequenceTurns* turns;
    StartFn start;
    uint64_t place;
    absl::Status ended;  // not OK: it has no turn
  };
  using ReadyList = absl::InlinedVector<Ready, 1>;

  void GiveBack(uint64_t place);
  // Ends those of these places, in their order, whose turn has not come.
  void EndWaiting(const std::vector<uint64_t>& places, const absl::Status& status, ReadyList* ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a caller out of its lines; who is the first in all of its own then is ready.
  void Remove(uint64_t place, ReadyList* ready) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Start(ReadyList ready);

  mutable absl::Mutex mutex_;
  uint64_t last_place_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, Caller> callers_ ABSL_GUARDED_BY(mutex_);  // by place
  // Places, in the order in which they were taken.
  absl::flat_hash_map<SequenceHandle, absl::btree_set<uint64_t>, NameHash> lines_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_REQUEST_SEQUENCE_TURNS_H_
