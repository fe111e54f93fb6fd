#include "client/cpp/tessera/small_file.h"

#include <fstream>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tessera {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream contents;
  contents << file.rdbuf();  // which fails, where an iterator over a directory would throw
  if (contents.view().empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read, or is empty"));
  return std::move(contents).str();
}

}  // namespace tessera
