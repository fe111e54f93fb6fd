// What a process has taken from malloc, shared with whoever watches it.
#ifndef TESSERA_TESTS_SERVER_HEAP_HEAP_COUNTS_H_
#define TESSERA_TESTS_SERVER_HEAP_HEAP_COUNTS_H_

#include <atomic>
#include <cstdint>

namespace tessera::testing {

// Names the file, of at least sizeof(HeapCounts) zero bytes, that the watched process maps.
inline constexpr char kHeapFileVariable[] = "TESSERA_HEAP_FILE";

// Lies at the start of the file. Bytes; the watcher may set `peak` and `largest` back.
struct HeapCounts {
  std::atomic<int64_t> current;
  std::atomic<int64_t> peak;
  std::atomic<int64_t> largest;  // single allocation
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_HEAP_HEAP_COUNTS_H_
