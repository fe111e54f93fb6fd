// What is to be done to memory that may be a device's, by address.
#ifndef TESSERA_SERVER_MEMORY_MEMORY_WORK_H_
#define TESSERA_SERVER_MEMORY_MEMORY_WORK_H_

#include <cstddef>

namespace tessera {

// Memory to be set to zero.
struct MemoryFill {
  std::byte* at = nullptr;
  size_t bytes = 0;
};

// Memory to be copied; the two do not overlap.
struct MemoryCopy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  size_t bytes = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_MEMORY_MEMORY_WORK_H_
