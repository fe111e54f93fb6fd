// Sizes as people write them: "65536", "64KiB", "2GiB".
#ifndef TESSERA_SERVER_CONFIG_BYTE_SIZE_H_
#define TESSERA_SERVER_CONFIG_BYTE_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

// The type of flags that are sizes.
struct ByteSize {
  int64_t bytes = 0;
};

// Takes a whole number, bare or with KiB, MiB, GiB or TiB behind it.
bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error);
// With the largest unit that divides it.
std::string AbslUnparseFlag(ByteSize size);

}  // namespace tessera

#endif  // TESSERA_SERVER_CONFIG_BYTE_SIZE_H_
