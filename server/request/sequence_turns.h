// Whose turn it is on a sequence: calls that name the same one are done one after the other, as they came.
#ifndef TESSERA_SERVER_REQUEST_SEQUENCE_TURNS_H_
#define TESSERA_SERVER_REQUEST_SEQUENCE_TURNS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "server/cache/sequence_handle.h"

namespace tessera {

// Every sequence has a line, and a call joins the lines of all sequences that it names at once: of two calls the one
// that came first is before the other in every line that both stand in, so that no two wait for each other. A call has
// its turn when it is the first in all of its lines.
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

  // Called once: with the turn when it has come, or with the status that Close was given. At once, or on the thread
  // that gives a turn back; one after the other, with no lock held.
  using StartFn = std::function<void(absl::StatusOr<Turn>)>;

  SequenceTurns() = default;
  SequenceTurns(const SequenceTurns&) = delete;
  SequenceTurns& operator=(const SequenceTurns&) = delete;

  // A sequence may be named more than once.
  void Join(absl::Span<const SequenceHandle> sequences, StartFn start);

  // Ends everyone who waits, and who joins later. Turns that have come are not concerned. REQUIRES: !status.ok().
  void Close(const absl::Status& status);

  // Calls in lines, those whose turn it is among them.
  int64_t places() const;

 private:
  struct NameHash {
    size_t operator()(const SequenceHandle& handle) const;
  };
  struct Place {
    std::vector<SequenceHandle> sequences;  // each once
    int64_t lines_ahead = 0;                // in which it is not the first
    StartFn start;                          // null once its turn has come
  };
  struct Ready {
    StartFn start;
    uint64_t place;
    absl::Status ended;  // not OK: it has no turn
  };

  void Leave(uint64_t place);
  // Calls what is ready, unless another thread is at it and will come to it.
  void StartReady();

  mutable absl::Mutex mutex_;
  uint64_t next_place_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, Place> places_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<SequenceHandle, std::deque<uint64_t>, NameHash> lines_ ABSL_GUARDED_BY(mutex_);
  std::deque<Ready> ready_ ABSL_GUARDED_BY(mutex_);
  bool starting_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_REQUEST_SEQUENCE_TURNS_H_
