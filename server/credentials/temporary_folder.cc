#include "server/credentials/temporary_folder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"

namespace tessera {

TemporaryFolder::TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "tessera_XXXXXX").string()) {
  ABSL_RAW_CHECK(mkdtemp(path_.data()) != nullptr, "no temporary folder");
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::Path(absl::string_view name) const { return absl::StrCat(path_, "/", name); }

std::string TemporaryFolder::Write(absl::string_view name, absl::string_view contents) const {
  std::string path = Path(name);
  {
    std::ofstream file(path + ".new", std::ios::binary);
    file << contents;
    ABSL_RAW_CHECK(file.flush().good(), "a file cannot be written");
  }
  std::filesystem::rename(path + ".new", path);
  return path;
}

}  // namespace tessera
