// SIGTERM and SIGINT as events.
#ifndef TESSERA_SERVER_PROCESS_STOP_SIGNALS_H_
#define TESSERA_SERVER_PROCESS_STOP_SIGNALS_H_

#include <atomic>
#include <functional>
#include <thread>

namespace tessera {

// The first signal runs a callback on a thread of its own; the second ends the process at once, with 128 plus the
// signal's number. SIGUSR2 is taken, and has no effect. Make one in main before any other thread, so that all threads
// inherit the blocked signals.
class StopSignals {
 public:
  using StopFn = std::function<void(int signal)>;

  explicit StopSignals(StopFn on_stop);
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

 private:
  void Run();

  const StopFn on_stop_;
  std::atomic<bool> ending_ = false;  // the destructor waits for the thread
  std::thread thread_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_PROCESS_STOP_SIGNALS_H_
