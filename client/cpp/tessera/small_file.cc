#include "client/cpp/tessera/small_file.h"

#include <fstream>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tessera {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string contents(std::istreambuf_iterator<char>(file), {});
  if (contents.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read, or is empty"));
  return contents;
}

}  // namespace tessera
