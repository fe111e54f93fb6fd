#include "tests/server/await.h"

#include "absl/base/internal/raw_logging.h"
#include "absl/time/clock.h"

namespace tessera::testing {
namespace {

// Between two looks: leaves the processor to what is waited for.
constexpr absl::Duration kPause = absl::Milliseconds(1);

}  // namespace

bool AwaitWithTimeout(const std::function<bool()>& done, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!done()) {
    if (absl::Now() >= deadline) return false;
    absl::SleepFor(kPause);
  }
  return true;
}

void Await(const char* what, const std::function<bool()>& done) {
  if (!AwaitWithTimeout(done, kLongestWait)) ABSL_RAW_LOG(FATAL, "waited in vain for %s", what);
}

}  // namespace tessera::testing
