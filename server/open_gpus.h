// Opens GPUs: open_gpus.cc where the build has CUDA, open_gpus_without_cuda.cc where it has not.
#ifndef TESSERA_SERVER_OPEN_GPUS_H_
#define TESSERA_SERVER_OPEN_GPUS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config/config.h"
#include "server/device/device.h"

namespace tessera {

// Those of ServerConfig::device, on one pool of pinned memory. UNAVAILABLE where the build or the machine has none,
// NOT_FOUND where it has others, RESOURCE_EXHAUSTED where memory is not to be had.
absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenGpus(const ServerConfig& config);

}  // namespace tessera

#endif  // TESSERA_SERVER_OPEN_GPUS_H_
