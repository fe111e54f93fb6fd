// What is to be done to memory that may be a device's, by address.
#ifndef TESSERA_SERVER_MEMORY_MEMORY_WORK_H_
#define TESSERA_SERVER_MEMORY_MEMORY_WORK_H_

#include <cstddef>
#include <vector>

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

// Copies of pages, by where they begin and end: on the device, or in the host's memory.
struct PageCopies {
  std::vector<MemoryCopy> on_device;
  std::vector<MemoryCopy> to_host;
  std::vector<MemoryCopy> from_host;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_MEMORY_MEMORY_WORK_H_
