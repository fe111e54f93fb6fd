#include "server/process/stop_signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

namespace tessera {
namespace {

// Wakes the thread to see whether it shall end. Anybody may send it; only the destructor makes it mean something.
constexpr int kWakeSignal = SIGUSR2;

sigset_t WatchedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, kWakeSignal);
  return signals;
}

}  // namespace

StopSignals::StopSignals(StopFn on_stop) : on_stop_(std::move(on_stop)) {
  const sigset_t signals = WatchedSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::thread([this] { Run(); });
}

StopSignals::~StopSignals() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), kWakeSignal);
  thread_.join();
}

void StopSignals::Run() {
  const sigset_t signals = WatchedSignals();
  bool stopping = false;
  while (true) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal == kWakeSignal) {
      if (ending_) return;
      continue;
    }
    if (stopping) _exit(128 + signal);
    stopping = true;
    on_stop_(signal);
  }
}

}  // namespace tessera
