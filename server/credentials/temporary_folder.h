// A folder for a test's files.
#ifndef TESSERA_SERVER_CREDENTIALS_TEMPORARY_FOLDER_H_
#define TESSERA_SERVER_CREDENTIALS_TEMPORARY_FOLDER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

// Removed, with its files, by the destructor. Any failure ends the program.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  std::string Path(absl::string_view name) const;
  // Replaces the file in one step. Returns its path.
  std::string Write(absl::string_view name, absl::string_view contents) const;

 private:
  std::string path_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CREDENTIALS_TEMPORARY_FOLDER_H_
