// Whose turn it is.
#ifndef TESSERA_SERVER_SCHEDULER_TURN_QUEUE_H_
#define TESSERA_SERVER_SCHEDULER_TURN_QUEUE_H_

#include <compare>
#include <cstdint>

#include "absl/container/btree_map.h"

namespace tessera {

// A place in the order of service: first by round, within a round by who came to it first. Unique among flows.
struct Turn {
  uint64_t round = 0;
  uint64_t sequence = 0;

  friend auto operator<=>(const Turn&, const Turn&) = default;
};

// Members in the order of their turns. A member's turn may move on while it is in the queue, never back; the queue
// notices when the member comes first, so that a tenant whose turn moves need not be found in every queue it is in.
//
// T has `Turn turn() const` and a field `Turn placed`, which is the queue's while T is in it. Not thread-safe.
template <typename T>
class TurnQueue {
 public:
  bool empty() const { return members_.empty(); }

  // REQUIRES: not in the queue; no other member has the same turn.
  void Insert(T* member) {
    member->placed = member->turn();
    members_.emplace(member->placed, member);
  }
  // REQUIRES: in the queue.
  void Erase(T* member) { members_.erase(member->placed); }

  // The member whose turn is first, or null. O(log members) amortised over the moves of turns.
  T* First() {
    while (!members_.empty()) {
      T* const first = members_.begin()->second;
      if (first->placed == first->turn()) return first;
      members_.erase(members_.begin());
      Insert(first);
    }
    return nullptr;
  }

 private:
  absl::btree_map<Turn, T*> members_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_SCHEDULER_TURN_QUEUE_H_
