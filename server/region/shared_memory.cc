#include "server/region/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tessera {
namespace {

std::string RandomName() {
  std::array<char, 16> bytes;
  ABSL_RAW_CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "getrandom");
  return absl::StrCat("tessera-", absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size())));
}

absl::Status Shortage(absl::string_view step, size_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("shared memory: ", step, " ", bytes, " bytes: ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedMemory>> SharedMemory::Create(size_t bytes) {
  const size_t size = RoundedUp(bytes);
  std::string name = RandomName();
  const int fd = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return Shortage("cannot create", size);
  absl::Status status;
  // Pages that are not there when they are touched are a SIGBUS, too: fallocate takes them now, or says no.
  if (ftruncate(fd, static_cast<off_t>(size)) != 0 || fallocate(fd, 0, 0, static_cast<off_t>(size)) != 0) {
    status = Shortage("cannot take", size);
  } else if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    status = Shortage("cannot seal", size);
  }
  if (status.ok()) {
    void* const data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data != MAP_FAILED) {
      return std::unique_ptr<SharedMemory>(new SharedMemory(std::move(name), fd, static_cast<std::byte*>(data), size));
    }
    status = Shortage("cannot map", size);
  }
  close(fd);
  return status;
}

SharedMemory::SharedMemory(std::string name, int fd, std::byte* data, size_t size)
    : name_(std::move(name)), fd_(fd), data_(data), size_(size) {}

SharedMemory::~SharedMemory() {
  Hide();
  madvise(data_, size_, MADV_REMOVE);
  munmap(data_, size_);
}

size_t SharedMemory::PageBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t SharedMemory::RoundedUp(size_t bytes) {
  ABSL_RAW_CHECK(bytes <= kMostBytes, "a region's size is bounded");
  return (bytes + PageBytes() - 1) / PageBytes() * PageBytes();
}

std::string SharedMemory::path() const { return fd_ < 0 ? "" : absl::StrCat("/proc/", getpid(), "/fd/", fd_); }

void SharedMemory::Hide() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

}  // namespace tessera
