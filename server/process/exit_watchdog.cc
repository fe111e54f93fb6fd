#include "server/process/exit_watchdog.h"

#include <unistd.h>

#include "server/clock/clock.h"
#include "server/process/logging.h"

namespace tessera {

ExitWatchdog::~ExitWatchdog() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void ExitWatchdog::Arm(absl::Duration timeout) {
  thread_ = std::thread([this, timeout] { Run(timeout); });
}

void ExitWatchdog::Run(absl::Duration timeout) {
  {
    absl::MutexLock lock(&mutex_);
    Clock* const clock = Clock::Real();
    if (clock->AwaitWithDeadline(&mutex_, absl::Condition(&stopped_), clock->Now() + timeout)) return;
  }
  Log(LogLevel::kError, "exit_forced", {{"after", absl::FormatDuration(timeout)}});
  FlushLog();
  _exit(0);
}

}  // namespace tessera
