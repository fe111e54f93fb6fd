// Shared memory that can be handed to another process without trusting it.
#ifndef TESSERA_SERVER_REGION_SHARED_MEMORY_H_
#define TESSERA_SERVER_REGION_SHARED_MEMORY_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tessera {

// A memfd, mapped. It has no name in any file system, so none is left behind however the process ends; it is sealed
// against shrinking and growing, so that no other process can make reading it here a SIGBUS, or have more of it than
// was granted. Its pages are taken at once. Not thread-safe.
class SharedMemory {
 public:
  // `bytes` rounded up to whole pages, all zero. RESOURCE_EXHAUSTED where the system refuses; but no limit of a file
  // system's stands before that of the machine's memory, so whoever asks keeps to a bound of his own. REQUIRES: 0 <
  // bytes <= kMostBytes.
  static absl::StatusOr<std::unique_ptr<SharedMemory>> Create(size_t bytes);
  static constexpr size_t kMostBytes = size_t{1} << 46;

  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  // Gives the pages back to the system, also where another process still maps them: it finds zeros from then on, on
  // pages that it is charged for itself. So nobody keeps what a quota no longer counts.
  ~SharedMemory();

  static size_t PageBytes();
  // `bytes` rounded up to whole pages. REQUIRES: bytes <= kMostBytes.
  static size_t RoundedUp(size_t bytes);

  absl::Span<std::byte> memory() const { return {data_, size_}; }
  // "/proc/PID/fd/N" until Hide. Opening it takes the rights to look into this process: the same user's, or root's.
  std::string path() const;
  // What the link `path` points to is "/memfd:NAME (deleted)". Random.
  const std::string& name() const { return name_; }

  // Closes the descriptor: the path is gone, mappings stay. Any number of times.
  void Hide();

 private:
  SharedMemory(std::string name, int fd, std::byte* data, size_t size);

  const std::string name_;
  int fd_;  // -1 once hidden
  std::byte* const data_;
  const size_t size_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_REGION_SHARED_MEMORY_H_
