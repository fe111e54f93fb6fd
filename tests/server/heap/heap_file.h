// The watcher's side of HeapCounts.
#ifndef TESSERA_TESTS_SERVER_HEAP_HEAP_FILE_H_
#define TESSERA_TESTS_SERVER_HEAP_HEAP_FILE_H_

#include <string>
#include <vector>

#include "tests/server/heap/heap_counts.h"

namespace tessera::testing {

// A temporary file, removed by the destructor.
class HeapFile {
 public:
  HeapFile();
  HeapFile(const HeapFile&) = delete;
  HeapFile& operator=(const HeapFile&) = delete;
  ~HeapFile();

  // For the environment of the process to watch; `library` is heap_watch's path.
  std::vector<std::string> Environment(const std::string& library) const;

  HeapCounts& counts() { return *counts_; }
  // From now on, peak and largest count anew. Returns the bytes held now.
  int64_t StartOver();

 private:
  std::string path_;
  HeapCounts* counts_;
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_HEAP_HEAP_FILE_H_
