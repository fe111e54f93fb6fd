// Deadlines as messages of streams carry them.
#ifndef TESSERA_CLIENT_CPP_TESSERA_WIRE_TIMEOUT_H_
#define TESSERA_CLIENT_CPP_TESSERA_WIRE_TIMEOUT_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace tessera {

// 0 stands for no deadline on the wire, so that one that has just passed becomes 1.
inline uint64_t MicrosecondsUntil(absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return 0;
  return static_cast<uint64_t>(std::max<int64_t>(1, absl::ToInt64Microseconds(deadline - absl::Now())));
}

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_WIRE_TIMEOUT_H_
