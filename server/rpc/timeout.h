// A call's own timeout, as messages carry it.
#ifndef TESSERA_SERVER_RPC_TIMEOUT_H_
#define TESSERA_SERVER_RPC_TIMEOUT_H_

#include <cstdint>

#include "absl/time/time.h"

namespace tessera {

// 0, and more than a year, is none.
inline absl::Duration ToTimeout(uint64_t timeout_us) {
  constexpr uint64_t kLongest = uint64_t{365} * 24 * 3600 * 1000000;
  return timeout_us == 0 || timeout_us > kLongest ? absl::InfiniteDuration()
                                                  : absl::Microseconds(static_cast<int64_t>(timeout_us));
}

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_TIMEOUT_H_
