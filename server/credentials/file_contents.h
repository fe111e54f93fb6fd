// Small files, read whole.
#ifndef TESSERA_SERVER_CREDENTIALS_FILE_CONTENTS_H_
#define TESSERA_SERVER_CREDENTIALS_FILE_CONTENTS_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace tessera {

// Certificates and lists of tokens are far smaller; what is not is no such file.
inline constexpr size_t kMaxCredentialFileBytes = size_t{4} << 20;

// INVALID_ARGUMENT, naming `path`, where it cannot be read, is no regular file, or is larger than
// kMaxCredentialFileBytes. A file of another kind is not waited for.
absl::StatusOr<std::string> ReadCredentialFile(const std::string& path);

}  // namespace tessera

#endif  // TESSERA_SERVER_CREDENTIALS_FILE_CONTENTS_H_
