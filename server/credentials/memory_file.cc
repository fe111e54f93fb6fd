#include "server/credentials/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

absl::Status Failed(absl::string_view what) {
  return absl::UnavailableError(
      absl::StrCat("a file in memory: ", what, ": ", std::error_code(errno, std::generic_category()).message()));
}

bool WriteAll(int fd, absl::string_view contents) {
  while (!contents.empty()) {
    const ssize_t count = write(fd, contents.data(), contents.size());
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) contents.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// A descriptor of a new file, last modified at `modified`.
absl::StatusOr<int> NewFile(absl::string_view contents, time_t modified) {
  const int fd = memfd_create("tessera", MFD_CLOEXEC);
  if (fd < 0) return Failed("memfd_create");
  const timespec times[] = {{modified, 0}, {modified, 0}};
  if (fchmod(fd, S_IRUSR | S_IWUSR) == 0 && WriteAll(fd, contents) && futimens(fd, times) == 0) return fd;
  absl::Status status = Failed("writing");
  close(fd);
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryFile>> MemoryFile::Create(absl::string_view contents) {
  const absl::StatusOr<int> fd = NewFile("", std::time(nullptr));
  if (!fd.ok()) return fd.status();
  std::unique_ptr<MemoryFile> file(new MemoryFile(*fd));
  if (access(file->path().c_str(), R_OK) != 0) return Failed(file->path());
  if (absl::Status status = file->Replace(contents); !status.ok()) return status;
  return file;
}

MemoryFile::MemoryFile(int fd) : fd_(fd), path_(absl::StrCat("/proc/self/fd/", fd)), modified_(std::time(nullptr)) {}

MemoryFile::~MemoryFile() { close(fd_); }

absl::Status MemoryFile::Replace(absl::string_view contents) {
  const absl::StatusOr<int> next = NewFile(contents, modified_ + 1);
  if (!next.ok()) return next.status();
  // Atomic: the number leads to one file, and from then on to the other.
  const bool replaced = dup3(*next, fd_, O_CLOEXEC) >= 0;
  absl::Status status = replaced ? absl::OkStatus() : Failed("dup3");
  close(*next);
  if (replaced) ++modified_;
  return status;
}

}  // namespace tessera
