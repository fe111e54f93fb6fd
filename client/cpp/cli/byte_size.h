// Sizes in bytes as people write them: "192KiB", "4 MiB", "65536".
#ifndef TESSERA_CLIENT_CPP_CLI_BYTE_SIZE_H_
#define TESSERA_CLIENT_CPP_CLI_BYTE_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

// A flag's value. Units: B (default), KiB, MiB, GiB, and KB, MB, GB, which mean the same.
struct ByteSize {
  int64_t bytes = 0;
};

// For ABSL_FLAG.
bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error);
std::string AbslUnparseFlag(const ByteSize& size);

// "1.5 GiB", "192 KiB", "17 B": at most one decimal.
std::string FormatBytes(uint64_t bytes);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_CLI_BYTE_SIZE_H_
