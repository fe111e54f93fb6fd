#include "server/request/sequence_turns.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>

#include "absl/hash/hash.h"

namespace tessera {

SequenceTurns::Turn::Turn(Turn&& other) noexcept
    : turns_(std::exchange(other.turns_, nullptr)), place_(std::exchange(other.place_, 0)) {}

SequenceTurns::Turn& SequenceTurns::Turn::operator=(Turn&& other) noexcept {
  if (this != &other) {
    GiveBack();
    turns_ = std::exchange(other.turns_, nullptr);
    place_ = std::exchange(other.place_, 0);
  }
  return *this;
}

void SequenceTurns::Turn::GiveBack() {
  if (SequenceTurns* const turns = std::exchange(turns_, nullptr)) turns->GiveBack(place_);
}

size_t SequenceTurns::NameHash::operator()(const SequenceHandle& handle) const {
  return absl::HashOf(handle.epoch, handle.slot, handle.generation, handle.secret);
}

void SequenceTurns::Join(absl::Span<const SequenceHandle> sequences, Place* place, StartFn start) {
  ReadyList ready;
  {
    absl::MutexLock lock(&mutex_);
    const uint64_t number = ++last_place_;
    place->number_ = number;
    if (!closed_.ok()) {
      ready.push_back({this, std::move(start), number, closed_});
    } else {
      Caller& caller = callers_[number];
      for (const SequenceHandle& sequence : sequences) {
        absl::btree_set<uint64_t>& line = lines_[sequence];
        const bool first = line.empty();
        if (!line.insert(number).second) continue;
        if (!first) ++caller.lines_ahead;
        caller.sequences.push_back(sequence);
      }
      if (caller.lines_ahead == 0) {
        ready.push_back({this, std::move(start), number, absl::OkStatus()});
      } else {
        caller.start = std::move(start);
      }
    }
  }
  Start(std::move(ready));
}

void SequenceTurns::Leave(const Place& place) {
  StartFn start;  // let go of after the lock
  ReadyList ready;
  {
    absl::MutexLock lock(&mutex_);
    const auto caller = callers_.find(place.number_);
    if (caller == callers_.end() || caller->second.start == nullptr) return;
    start = std::exchange(caller->second.start, nullptr);
    Remove(place.number_, &ready);
  }
  Start(std::move(ready));
}

void SequenceTurns::GiveBack(uint64_t place) {
  ReadyList ready;
  {
    absl::MutexLock lock(&mutex_);
    Remove(place, &ready);
  }
  Start(std::move(ready));
}

void SequenceTurns::Remove(uint64_t place, ReadyList* ready) {
  const auto caller = callers_.find(place);
  for (const SequenceHandle& sequence : caller->second.sequences) {
    const auto line = lines_.find(sequence);
    const bool was_first = *line->second.begin() == place;
    line->second.erase(place);
    if (line->second.empty()) {
      lines_.erase(line);
    } else if (was_first) {
      Caller& next = callers_.find(*line->second.begin())->second;
      if (--next.lines_ahead == 0) {
        ready->push_back({this, std::exchange(next.start, nullptr), *line->second.begin(), absl::OkStatus()});
      }
    }
  }
  callers_.erase(caller);
}

void SequenceTurns::End(const SequenceHandle& sequence, const absl::Status& status) {
  ReadyList ready;
  {
    absl::MutexLock lock(&mutex_);
    const auto line = lines_.find(sequence);
    if (line == lines_.end()) return;
    EndWaiting({line->second.begin(), line->second.end()}, status, &ready);
  }
  Start(std::move(ready));
}

void SequenceTurns::Close(const absl::Status& status) {
  ReadyList ready;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = status;
    std::vector<uint64_t> places;
    places.reserve(callers_.size());
    for (const auto& [place, caller] : callers_) places.push_back(place);
    std::sort(places.begin(), places.end());
    EndWaiting(places, status, &ready);
  }
  Start(std::move(ready));
}

void SequenceTurns::EndWaiting(const std::vector<uint64_t>& places, const absl::Status& status, ReadyList* ready) {
  std::vector<uint64_t> waiting;
  for (const uint64_t place : places) {
    Caller& caller = callers_.find(place)->second;
    if (caller.start == nullptr) continue;
    ready->push_back({this, std::exchange(caller.start, nullptr), place, status});
    waiting.push_back(place);
  }
  // The last one first, so that nobody's turn comes by it.
  for (auto place = waiting.rbegin(); place != waiting.rend(); ++place) Remove(*place, ready);
}

int64_t SequenceTurns::places() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int64_t>(callers_.size());
}

void SequenceTurns::Start(ReadyList ready) {
  thread_local std::deque<Ready> to_start;
  thread_local bool starting = false;
  std::move(ready.begin(), ready.end(), std::back_inserter(to_start));
  if (starting) return;
  starting = true;
  while (!to_start.empty()) {
    const Ready next = std::move(to_start.front());
    to_start.pop_front();
    if (next.ended.ok()) {
      next.start(Turn(next.turns, next.place));
    } else {
      next.start(next.ended);
    }
  }
  starting = false;
}

}  // namespace tessera
