#include "server/grpc_polling.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "server/scheduler/awake_readers.h"

namespace tessera {

int AwakeEpollWait(int epoll, epoll_event* events, int max_events, int timeout_ms) {
  using Steady = std::chrono::steady_clock;
  // Not epoll_wait, which may be ours.
  const auto wait = [&](int timeout) { return epoll_pwait(epoll, events, max_events, timeout, nullptr); };
  if (timeout_ms == 0 || !ReadersStayAwake()) return wait(timeout_ms);
  const Steady::time_point begun = Steady::now();
  const auto left = [&] {
    if (timeout_ms < 0) return timeout_ms;
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Steady::now() - begun);
    return std::max(0, timeout_ms - static_cast<int>(std::min<long long>(passed.count(), timeout_ms)));
  };
  while (ReadersStayAwake() && left() != 0) {
    if (const int ready = wait(0); ready != 0) return ready;
    std::this_thread::yield();
  }
  return wait(left());
}

}  // namespace tessera
