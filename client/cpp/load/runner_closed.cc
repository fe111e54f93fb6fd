#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "client/cpp/load/runner.h"

namespace tessera::load {
namespace {

// Shared by the callers of one run.
struct ClosedRun {
  Dispatcher* dispatcher;
  absl::Duration measure_from;
  absl::Duration until;
  int64_t max_requests;
  std::atomic<int64_t> measured{0};
};

// One call in flight at a time. An answer may come on another thread or before Send returns; whichever of the two sides
// comes second sends the next call, so that neither recursion nor a thread of its own is needed.
class Caller {
 public:
  explicit Caller(ClosedRun* run) : run_(run) {}

  void Run() {
    do {
      const absl::Duration due = run_->dispatcher->clock()->Now();
      if (!MaySend(due)) return;
      turn_.store(Turn::kSending, std::memory_order_relaxed);
      run_->dispatcher->Send(due, [this] { Answered(); });
    } while (turn_.exchange(Turn::kWaiting, std::memory_order_acq_rel) == Turn::kAnswered);
  }

 private:
  enum class Turn { kSending, kWaiting, kAnswered };

  void Answered() {
    if (turn_.exchange(Turn::kAnswered, std::memory_order_acq_rel) == Turn::kWaiting) Run();
  }

  bool MaySend(absl::Duration now) const {
    if (now >= run_->until || run_->dispatcher->stopped()) return false;
    if (run_->max_requests == 0 || now < run_->measure_from) return true;
    return run_->measured.fetch_add(1, std::memory_order_relaxed) < run_->max_requests;
  }

  ClosedRun* const run_;
  std::atomic<Turn> turn_{Turn::kSending};
};

}  // namespace

RunStats RunClosedLoop(int callers, const RunLength& length, Dispatcher* dispatcher) {
  LoadClock* const clock = dispatcher->clock();
  const absl::Duration start = clock->Now();
  ClosedRun run = {dispatcher, start + length.warm_up, start + length.warm_up + length.measured, length.max_requests};
  dispatcher->recorder()->OpenWindow(run.measure_from, run.until);
  std::vector<std::unique_ptr<Caller>> all;
  all.reserve(static_cast<size_t>(callers));
  for (int i = 0; i < callers; ++i) all.push_back(std::make_unique<Caller>(&run));
  for (const std::unique_ptr<Caller>& caller : all) caller->Run();
  dispatcher->AwaitIdle();
  return dispatcher->recorder()->CloseWindow(clock->Now());
}

}  // namespace tessera::load
