#include "server/credentials/file_contents.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

absl::Status Unreadable(const std::string& path, int error) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": cannot be read: ", std::error_code(error, std::generic_category()).message()));
}

absl::StatusOr<std::string> ReadAll(int fd, const std::string& path) {
  struct stat status;
  if (fstat(fd, &status) != 0) return Unreadable(path, errno);
  if (!S_ISREG(status.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  std::string contents;
  char buffer[16 << 10];
  while (true) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count == 0) return contents;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Unreadable(path, errno);
    contents.append(buffer, static_cast<size_t>(count));
    if (contents.size() > kMaxCredentialFileBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": larger than ", kMaxCredentialFileBytes, " bytes, so not what it should be"));
    }
  }
}

}  // namespace

absl::StatusOr<std::string> ReadCredentialFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Unreadable(path, errno);
  absl::StatusOr<std::string> contents = ReadAll(fd, path);
  close(fd);
  return contents;
}

}  // namespace tessera
