// A GPU's part in regions.
#ifndef TESSERA_SERVER_DEVICE_CUDA_CUDA_REGION_MAPPER_H_
#define TESSERA_SERVER_DEVICE_CUDA_CUDA_REGION_MAPPER_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/device/cuda/cuda_calls.h"
#include "server/region/region_mapper.h"

namespace tessera {

class CudaRegionMapper final : public RegionMapper {
 public:
  // Of CUDA device `device`. The calls outlive the mapper.
  CudaRegionMapper(int device, const DeviceUuid& uuid, CudaCalls* calls)
      : device_(device), uuid_(uuid), calls_(calls) {}

  const DeviceUuid& uuid() const override { return uuid_; }
  absl::StatusOr<std::unique_ptr<Mapping>> Pin(absl::Span<std::byte> memory) override;
  absl::StatusOr<Import> Open(const CudaIpcHandle& handle) override;

 private:
  const int device_;
  const DeviceUuid uuid_;
  CudaCalls* const calls_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_CUDA_CUDA_REGION_MAPPER_H_
