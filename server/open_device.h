// Chooses and opens the device that a configuration asks for.
#ifndef TESSERA_SERVER_OPEN_DEVICE_H_
#define TESSERA_SERVER_OPEN_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/config.h"
#include "server/device/device.h"

namespace tessera {

// "auto" takes a GPU where this build and this machine have one, else the CPU. UNAVAILABLE where the backend asked for
// is not to be had, RESOURCE_EXHAUSTED where its memory is not, INVALID_ARGUMENT for a fault script that makes no
// sense.
absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const ServerConfig& config);

}  // namespace tessera

#endif  // TESSERA_SERVER_OPEN_DEVICE_H_
