// A target and a clock without threads or waiting, for tests: a single server with a queue, in simulated time.
#ifndef TESSERA_CLIENT_CPP_LOAD_SIMULATION_H_
#define TESSERA_CLIENT_CPP_LOAD_SIMULATION_H_

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "client/cpp/load/load_clock.h"
#include "client/cpp/load/target.h"

namespace tessera::load {

// Runs events in the order of their times, from whichever call waits. One thread only.
class SimulatedClock : public LoadClock {
 public:
  absl::Duration Now() const override { return now_; }

  void SleepUntil(absl::Duration time) override {
    while (!events_.empty() && events_.begin()->first <= time) RunNext();
    now_ = std::max(now_, time);
  }

  void Await(absl::Mutex* mutex, const absl::Condition& condition) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    while (!condition.Eval()) {
      mutex->Unlock();
      RunNext();
      mutex->Lock();
    }
  }

  void At(absl::Duration time, std::function<void()> event) { events_.emplace(time, std::move(event)); }

  // The thread that calls is held up, as by a blocking send; nothing else happens meanwhile.
  void Block(absl::Duration time) { now_ += time; }

 private:
  void RunNext() {
    auto node = events_.extract(events_.begin());
    now_ = std::max(now_, node.key());
    node.mapped()();
  }

  absl::Duration now_ = absl::Seconds(1000);  // an arbitrary origin
  std::multimap<absl::Duration, std::function<void()>> events_;
};

// First come, first served, one call at a time.
class SimulatedTarget : public Target {
 public:
  // `service` returns the time that the server spends on a call once it is its turn.
  SimulatedTarget(SimulatedClock* clock, std::function<absl::Duration(const Call&)> service)
      : clock_(clock), service_(std::move(service)) {}

  void Issue(const Call& call, AnswerCallback done) override {
    const absl::Duration arrived = clock_->Now();
    const absl::Duration begin = std::max(arrived, free_at_);
    const absl::Duration service = service_(call);
    free_at_ = begin + service;
    Answer answer;
    answer.timing = {absl::ZeroDuration(), begin - arrived, service, 1};
    clock_->At(free_at_, [answer, done = std::move(done)] { done(answer); });
  }

  // The server does nothing for `time` from now.
  void Stall(absl::Duration time) { free_at_ = std::max(free_at_, clock_->Now()) + time; }

 private:
  SimulatedClock* const clock_;
  const std::function<absl::Duration(const Call&)> service_;
  absl::Duration free_at_;
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_SIMULATION_H_
