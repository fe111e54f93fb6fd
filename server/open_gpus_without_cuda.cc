#include "absl/status/status.h"
#include "server/open_gpus.h"

namespace tessera {

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenGpus(const ServerConfig& /*config*/) {
  return absl::UnavailableError("backend: this build has no CUDA kernels; use --backend=cpu or auto");
}

}  // namespace tessera
