// Counts of the protocol as the domain's.
#ifndef TESSERA_SERVER_RPC_COUNT_H_
#define TESSERA_SERVER_RPC_COUNT_H_

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tessera {

// For counts that the domain holds as int32. INVALID_ARGUMENT naming the field for one that is beyond it, and so beyond
// every limit.
inline absl::Status ToCount(absl::string_view field, uint32_t value, int32_t* count) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  if (value > static_cast<uint32_t>(kMost)) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, " is more than any limit allows, ", kMost));
  }
  *count = static_cast<int32_t>(value);
  return absl::OkStatus();
}

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_COUNT_H_
