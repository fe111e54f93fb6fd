// Waiting for what can only be looked at.
#ifndef TESSERA_TESTS_SERVER_AWAIT_H_
#define TESSERA_TESTS_SERVER_AWAIT_H_

#include <functional>

#include "absl/time/time.h"

namespace tessera::testing {

// Far longer than anything takes on a machine that has other work to do.
inline constexpr absl::Duration kLongestWait = absl::Minutes(1);

// Looks again and again, in real time, until `done` says so; returns whether it did before `timeout`.
bool AwaitWithTimeout(const std::function<bool()>& done, absl::Duration timeout);

// As above, and ends the program, naming `what`, where kLongestWait is not enough.
void Await(const char* what, const std::function<bool()>& done);

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_AWAIT_H_
