#include "server/process/heap.h"

#include <cstdlib>  // says whether the C library is glibc

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tessera {

void SetUpHeap() {
#ifdef __GLIBC__
  // Free memory at the end of a heap that it may keep.
  constexpr int kKept = 64 << 20;
  // The largest that glibc takes; above it a block comes from the system and goes back at once.
  constexpr int kLargestBlock = 32 << 20;
  constexpr int kGrowth = 1 << 20;
  mallopt(M_ARENA_MAX, kHeaps);
  mallopt(M_TRIM_THRESHOLD, kKept);
  mallopt(M_MMAP_THRESHOLD, kLargestBlock);
  mallopt(M_TOP_PAD, kGrowth);
#endif
}

}  // namespace tessera
