// Ends the process where an orderly end takes too long.
#ifndef TESSERA_SERVER_PROCESS_EXIT_WATCHDOG_H_
#define TESSERA_SERVER_PROCESS_EXIT_WATCHDOG_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tessera {

// gRPC's own shutdown has no bound: a peer that neither reads nor hangs up may keep it waiting. One thread at a time.
class ExitWatchdog {
 public:
  ExitWatchdog() = default;
  ExitWatchdog(const ExitWatchdog&) = delete;
  ExitWatchdog& operator=(const ExitWatchdog&) = delete;
  // Nothing happens any more.
  ~ExitWatchdog();

  // Unless this is destroyed before, logs exit_forced and ends the process with exit code 0 after `timeout`: what was
  // admitted has ended by then. Destroys nothing. REQUIRES: not called before.
  void Arm(absl::Duration timeout);

 private:
  void Run(absl::Duration timeout);

  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_PROCESS_EXIT_WATCHDOG_H_
