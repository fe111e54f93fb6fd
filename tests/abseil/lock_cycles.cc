// Tests without Abseil's look for lock cycles, where it finds false ones. Linked into every test there.
//
// A distribution's Abseil may be built with that check, while everything that uses it, gRPC included, is built without:
// since 2024 the destructor of a Mutex is inline and then does nothing. So the library goes on counting the locks of
// the dead, takes new mutexes at the same addresses for them, and ends the process over cycles that no thread could
// meet.
#include "absl/synchronization/mutex.h"

namespace {

[[maybe_unused]] const bool off = (absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore), true);

}  // namespace
