#include "server/scheduler/awake_readers.h"

#include <atomic>
#include <chrono>

namespace tessera {
namespace {

using Steady = std::chrono::steady_clock;

constinit std::atomic<Steady::time_point> awake_until = Steady::time_point::min();

}  // namespace

void KeepReadersAwake(absl::Duration time) {
  awake_until.store(Steady::now() + absl::ToChronoNanoseconds(time), std::memory_order_relaxed);
}

bool ReadersStayAwake() { return Steady::now() < awake_until.load(std::memory_order_relaxed); }

}  // namespace tessera
