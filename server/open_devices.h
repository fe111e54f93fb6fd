// Chooses and opens the devices that a configuration asks for.
#ifndef TESSERA_SERVER_OPEN_DEVICES_H_
#define TESSERA_SERVER_OPEN_DEVICES_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config/config.h"
#include "server/device/device.h"

namespace tessera {

// At least one device, all on one staging pool, in the order of their indexes. "auto" takes GPUs where this build and
// this machine have them, else the CPU. UNAVAILABLE where the backend asked for is not to be had, NOT_FOUND where a
// device is not, RESOURCE_EXHAUSTED where memory is not, INVALID_ARGUMENT for a fault script that makes no sense.
absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenDevices(const ServerConfig& config);

}  // namespace tessera

#endif  // TESSERA_SERVER_OPEN_DEVICES_H_
