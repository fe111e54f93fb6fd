#include "server/rpc/open_rpcs.h"

#include "absl/time/clock.h"
#include "server/clock/clock.h"

namespace tessera {

bool OpenRpcs::AwaitQuiet(absl::Duration quiet, absl::Time deadline) const {
  absl::Time since = Clock::Real()->Now();
  int64_t started = started_;
  while (true) {
    const absl::Time now = Clock::Real()->Now();
    const int64_t started_now = started_;
    const bool busy = open_ > 0 || started_now != started;
    if (busy) {
      since = now;
      started = started_now;
    }
    if (!busy && now - since >= quiet) return true;
    if (now >= deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
}

}  // namespace tessera
