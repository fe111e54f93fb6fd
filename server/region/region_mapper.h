// A device's part in regions: copies from and to shared memory at full speed, and memory of the device itself.
#ifndef TESSERA_SERVER_REGION_REGION_MAPPER_H_
#define TESSERA_SERVER_REGION_REGION_MAPPER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tessera {

// Of a GPU, as CUDA has it.
using DeviceUuid = std::array<uint8_t, 16>;
// cudaIpcMemHandle_t: names an allocation of another process.
using CudaIpcHandle = std::array<uint8_t, 64>;

// Thread-safe. Calls may take as long as the driver does. Outlives what it hands out.
class RegionMapper {
 public:
  // Undone by its destructor.
  class Mapping {
   public:
    virtual ~Mapping() = default;
  };
  struct Import {
    absl::Span<std::byte> memory;  // the whole allocation, on the device
    std::unique_ptr<Mapping> mapping;
  };

  virtual ~RegionMapper() = default;

  virtual const DeviceUuid& uuid() const = 0;

  // Lets the server's GPUs copy from and to `memory`, whole pages of the host, as from and to pinned memory.
  // RESOURCE_EXHAUSTED where the system does not pin so much.
  virtual absl::StatusOr<std::unique_ptr<Mapping>> Pin(absl::Span<std::byte> memory) = 0;

  // INVALID_ARGUMENT where the handle names no allocation of this device that another process holds; the device goes
  // on.
  virtual absl::StatusOr<Import> Open(const CudaIpcHandle& handle) = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_REGION_REGION_MAPPER_H_
