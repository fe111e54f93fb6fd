#include "server/scheduler/job.h"

#include "absl/base/internal/raw_logging.h"

namespace tessera {

bool Job::Advance(State from, State to) {
  ABSL_RAW_CHECK(to != State::kDone, "jobs end by Finish");
  return state_.compare_exchange_strong(from, to, std::memory_order_acq_rel);
}

bool Job::Finish(const absl::Status& status) {
  const State where = state_.exchange(State::kDone, std::memory_order_acq_rel);
  if (where == State::kDone) return false;
  OnDone(status, where);
  return true;
}

absl::string_view Name(Job::State state) {
  switch (state) {
    case Job::State::kCreated:
      return "created";
    case Job::State::kQueued:
      return "queue";
    case Job::State::kBatched:
      return "batch";
    case Job::State::kRunning:
      return "run";
    case Job::State::kDone:
      return "done";
  }
  return "unknown";
}

}  // namespace tessera
