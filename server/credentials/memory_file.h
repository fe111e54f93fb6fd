// A file that is in memory alone, for libraries that will have a path.
#ifndef TESSERA_SERVER_CREDENTIALS_MEMORY_FILE_H_
#define TESSERA_SERVER_CREDENTIALS_MEMORY_FILE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

// Not thread-safe; readers of the path are free to read at any time.
class MemoryFile {
 public:
  // UNAVAILABLE where the system has no memory files, or no /proc by which they have paths.
  static absl::StatusOr<std::unique_ptr<MemoryFile>> Create(absl::string_view contents);
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();

  // Leads to the file within this process only, and as long as this lives.
  const std::string& path() const { return path_; }

  // Whoever opens the path gets the old contents or the new ones, never a mixture. The time of modification becomes
  // another second's, so that one who opens it twice can tell by that.
  absl::Status Replace(absl::string_view contents);

 private:
  explicit MemoryFile(int fd);

  const int fd_;
  const std::string path_;
  time_t modified_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CREDENTIALS_MEMORY_FILE_H_
