#include "server/request/sequence_turns.h"

#include <algorithm>
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
  if (SequenceTurns* const turns = std::exchange(turns_, nullptr)) turns->Leave(place_);
}

size_t SequenceTurns::NameHash::operator()(const SequenceHandle& handle) const {
  return absl::HashOf(handle.epoch, handle.slot, handle.generation, handle.secret);
}

void SequenceTurns::Join(absl::Span<const SequenceHandle> sequences, StartFn start) {
  {
    absl::MutexLock lock(&mutex_);
    const uint64_t id = next_place_++;
    if (!closed_.ok()) {
      ready_.push_back({std::move(start), id, closed_});
    } else {
      Place& place = places_[id];
      for (const SequenceHandle& sequence : sequences) {
        std::deque<uint64_t>& line = lines_[sequence];
        if (!line.empty() && line.back() == id) continue;
        if (!line.empty()) ++place.lines_ahead;
        line.push_back(id);
        place.sequences.push_back(sequence);
      }
      if (place.lines_ahead == 0) {
        ready_.push_back({std::move(start), id, absl::OkStatus()});
      } else {
        place.start = std::move(start);
      }
    }
  }
  StartReady();
}

void SequenceTurns::Leave(uint64_t id) {
  {
    absl::MutexLock lock(&mutex_);
    const auto found = places_.find(id);
    for (const SequenceHandle& sequence : found->second.sequences) {
      const auto line = lines_.find(sequence);
      line->second.pop_front();
      if (line->second.empty()) {
        lines_.erase(line);
        continue;
      }
      Place& next = places_.find(line->second.front())->second;
      if (--next.lines_ahead == 0) {
        ready_.push_back({std::exchange(next.start, nullptr), line->second.front(), absl::OkStatus()});
      }
    }
    places_.erase(found);
  }
  StartReady();
}

void SequenceTurns::Close(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = status;
    std::vector<uint64_t> waiting;
    for (const auto& [id, place] : places_) {
      if (place.start != nullptr) waiting.push_back(id);
    }
    std::sort(waiting.begin(), waiting.end());
    for (const uint64_t id : waiting) {
      const auto found = places_.find(id);
      for (const SequenceHandle& sequence : found->second.sequences) {
        std::deque<uint64_t>& line = lines_.find(sequence)->second;
        line.erase(std::find(line.begin(), line.end(), id));
        if (line.empty()) lines_.erase(sequence);
      }
      ready_.push_back({std::move(found->second.start), id, status});
      places_.erase(found);
    }
  }
  StartReady();
}

int64_t SequenceTurns::places() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int64_t>(places_.size());
}

void SequenceTurns::StartReady() {
  for (bool first = true;; first = false) {
    Ready next;
    {
      absl::MutexLock lock(&mutex_);
      if (first && starting_) return;
      starting_ = !ready_.empty();
      if (!starting_) return;
      next = std::move(ready_.front());
      ready_.pop_front();
    }
    if (next.ended.ok()) {
      next.start(Turn(this, next.place));
    } else {
      next.start(next.ended);
    }
  }
}

}  // namespace tessera
