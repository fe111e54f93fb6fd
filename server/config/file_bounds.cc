#include "server/config/file_bounds.h"

#include <algorithm>

#include "server/rpc/health_port.h"

namespace tessera {
namespace {

// What the process needs beside connections and regions: pollers, logs, scrapes, devices.
constexpr uint64_t kOtherFiles = 64;

}  // namespace

FileBounds BoundByFiles(const ServerConfig& config, uint64_t files) {
  const uint64_t others = kOtherFiles + (config.health_address.empty() ? 0 : HealthPort::kMaxConnections);
  const uint64_t room = files > others ? files - others : 0;
  const auto connections = static_cast<uint64_t>(config.max_connections);
  const uint64_t regions = config.regions.allow_shared_memory ? static_cast<uint64_t>(config.regions.max_regions) : 0;
  FileBounds bounds = {.max_connections = config.max_connections, .max_regions = config.regions.max_regions};
  if (room >= connections + regions) return bounds;
  uint64_t for_regions = 0;
  if (regions > 0) {
    const uint64_t left = room > connections ? room - connections : 0;
    for_regions = std::min(regions, std::max({uint64_t{1}, room / 4, left}));
    bounds.max_regions = static_cast<int64_t>(for_regions);
  }
  const uint64_t for_connections = room > for_regions ? room - for_regions : 1;
  bounds.max_connections = static_cast<int>(std::min(connections, for_connections));
  return bounds;
}

}  // namespace tessera
