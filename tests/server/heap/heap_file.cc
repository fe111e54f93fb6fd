#include "tests/server/heap/heap_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/base/internal/raw_logging.h"

namespace tessera::testing {

HeapFile::HeapFile() {
  char path[] = "/tmp/tessera_heap_XXXXXX";
  const int fd = mkstemp(path);
  ABSL_RAW_CHECK(fd >= 0 && ftruncate(fd, sizeof(HeapCounts)) == 0, "no temporary file");
  path_ = path;
  void* const file = mmap(nullptr, sizeof(HeapCounts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ABSL_RAW_CHECK(file != MAP_FAILED, "the temporary file cannot be mapped");
  close(fd);
  counts_ = static_cast<HeapCounts*>(file);
}

HeapFile::~HeapFile() {
  munmap(counts_, sizeof(HeapCounts));
  unlink(path_.c_str());
}

std::vector<std::string> HeapFile::Environment(const std::string& library) const {
  return {"LD_PRELOAD=" + library, std::string(kHeapFileVariable) + "=" + path_};
}

int64_t HeapFile::StartOver() {
  const int64_t current = counts_->current;
  counts_->peak = current;
  counts_->largest = 0;
  return current;
}

}  // namespace tessera::testing
