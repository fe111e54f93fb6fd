// Counts of the protocol as the domain's.
#ifndef TESSERA_SERVER_RPC_SATURATED_H_
#define TESSERA_SERVER_RPC_SATURATED_H_

#include <algorithm>
#include <cstdint>
#include <limits>

namespace tessera {

// For counts that the domain holds as int32; what is beyond it is beyond every limit, too.
inline int32_t Saturated(uint32_t value) {
  return static_cast<int32_t>(std::min<uint32_t>(value, std::numeric_limits<int32_t>::max()));
}

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_SATURATED_H_
