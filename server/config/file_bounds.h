// What a server may have of connections and regions where file descriptors are few.
#ifndef TESSERA_SERVER_CONFIG_FILE_BOUNDS_H_
#define TESSERA_SERVER_CONFIG_FILE_BOUNDS_H_

#include <cstdint>

#include "server/config/config.h"

namespace tessera {

struct FileBounds {
  int max_connections;
  int64_t max_regions;
  friend bool operator==(const FileBounds&, const FileBounds&) = default;
};

// `config`'s own bounds where a process of at most `files` descriptors has room for them, and otherwise lower ones:
// each connection has a descriptor, and each region of shared memory until its caller has opened it. Regions get a
// quarter of what is left beside the process's own, or what connections leave; neither ends below 1.
FileBounds BoundByFiles(const ServerConfig& config, uint64_t files);

}  // namespace tessera

#endif  // TESSERA_SERVER_CONFIG_FILE_BOUNDS_H_
