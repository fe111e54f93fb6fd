// Memory that a caller on this host and the server both have.
#ifndef TESSERA_SERVER_REGION_REGION_H_
#define TESSERA_SERVER_REGION_REGION_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace tessera {

enum class RegionKind : uint8_t { kSharedMemory, kCudaMemory };

// Owned by shared_ptr: the stream that opened it and every call that uses it; when the last of them lets go, the server
// lets go of the memory (RegionHost). Thread-safe.
//
// The caller may write to the memory at any time, whatever it has promised. So nothing that is read from it decides
// about anything but values: every size, offset and option comes from messages.
class MemoryRegion {
 public:
  MemoryRegion() = default;
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;
  virtual ~MemoryRegion() = default;

  virtual RegionKind kind() const = 0;
  // In the host's address space, or in that of the GPU `device`.
  virtual absl::Span<std::byte> memory() const = 0;
  // The server's index of the GPU that it is on; -1 of shared memory.
  virtual int device() const = 0;

  // Takes away the path under which other processes can open shared memory; those that have keep it. REQUIRES: called
  // by one thread at a time.
  virtual void HidePath() {}
};

}  // namespace tessera

#endif  // TESSERA_SERVER_REGION_REGION_H_
