#include "client/cpp/tessera/shared_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tessera {
namespace {

absl::Status NotHere(absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the server's shared memory cannot be opened here, as it can by a process of the same user, or of root, "
      "that sees the same /proc: ",
      why));
}

bool LeadsTo(const std::string& link, absl::string_view target) {
  std::array<char, 256> read;
  const ssize_t size = readlink(link.c_str(), read.data(), read.size());
  return size >= 0 && absl::string_view(read.data(), static_cast<size_t>(size)) == target;
}

// Whether the memory can be relied on to stay as large as it is.
bool Sealed(int fd, size_t bytes) {
  struct stat status;
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &status) == 0 && status.st_size >= 0 &&
         static_cast<size_t>(status.st_size) >= bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedMapping>> SharedMapping::Open(const std::string& path, const std::string& name,
                                                                   size_t bytes) {
  const std::string target = absl::StrCat("/memfd:", name, " (deleted)");
  if (!LeadsTo(path, target)) return NotHere(absl::StrCat(path, " does not lead to it"));
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return NotHere(std::strerror(errno));
  void* data = MAP_FAILED;
  // What the path led to may have changed since.
  const bool same = LeadsTo(absl::StrCat("/proc/self/fd/", fd), target) && Sealed(fd, bytes);
  if (same) data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int error = errno;
  close(fd);
  if (!same) return NotHere(absl::StrCat(path, " is something else"));
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot map ", bytes, " bytes: ", std::strerror(error)));
  }
  return std::unique_ptr<SharedMapping>(new SharedMapping({static_cast<std::byte*>(data), bytes}));
}

SharedMapping::~SharedMapping() { munmap(memory_.data(), memory_.size()); }

}  // namespace tessera
