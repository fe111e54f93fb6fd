// Files of a few lines.
#ifndef TESSERA_CLIENT_CPP_TESSERA_SMALL_FILE_H_
#define TESSERA_CLIENT_CPP_TESSERA_SMALL_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace tessera {

// INVALID_ARGUMENT, naming `path`, where it cannot be read or is empty.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_SMALL_FILE_H_
