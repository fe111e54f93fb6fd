// A library to be preloaded: counts what the process takes from malloc, in the file that TESSERA_HEAP_FILE names.
//
// Every way into glibc's allocator is wrapped; operator new comes by malloc. Memory mapped directly is not counted.
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "tests/server/heap/heap_counts.h"

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* pointer, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* pointer);
}

namespace {

using tessera::testing::HeapCounts;

// Counts here until the file is mapped, and for good where there is none.
HeapCounts unwatched;
std::atomic<HeapCounts*> counts{&unwatched};

void Raise(std::atomic<int64_t>& highest, int64_t value) {
  int64_t seen = highest.load(std::memory_order_relaxed);
  while (seen < value && !highest.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

void* Count(void* pointer) {
  if (pointer == nullptr) return nullptr;
  const auto bytes = static_cast<int64_t>(malloc_usable_size(pointer));
  HeapCounts& heap = *counts.load(std::memory_order_acquire);
  Raise(heap.peak, heap.current.fetch_add(bytes, std::memory_order_relaxed) + bytes);
  Raise(heap.largest, bytes);
  return pointer;
}

void Discount(void* pointer) {
  if (pointer == nullptr) return;
  counts.load(std::memory_order_acquire)
      ->current.fetch_sub(static_cast<int64_t>(malloc_usable_size(pointer)), std::memory_order_relaxed);
}

__attribute__((constructor)) void MapFile() {
  const char* path = std::getenv(tessera::testing::kHeapFileVariable);
  if (path == nullptr) return;
  const int fd = open(path, O_RDWR);
  if (fd < 0) return;
  void* file = mmap(nullptr, sizeof(HeapCounts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (file == MAP_FAILED) return;
  auto* heap = static_cast<HeapCounts*>(file);
  heap->current.store(unwatched.current.load());
  counts.store(heap, std::memory_order_release);
}

}  // namespace

extern "C" {

void* malloc(size_t size) { return Count(__libc_malloc(size)); }
void* calloc(size_t count, size_t size) { return Count(__libc_calloc(count, size)); }
void* memalign(size_t alignment, size_t size) { return Count(__libc_memalign(alignment, size)); }
void* aligned_alloc(size_t alignment, size_t size) { return Count(__libc_memalign(alignment, size)); }

int posix_memalign(void** pointer, size_t alignment, size_t size) {
  void* const memory = Count(__libc_memalign(alignment, size));
  if (memory == nullptr) return ENOMEM;
  *pointer = memory;
  return 0;
}

void* realloc(void* pointer, size_t size) {
  Discount(pointer);
  void* const moved = __libc_realloc(pointer, size);
  // A failed realloc leaves the old block in place.
  Count(moved != nullptr || size == 0 ? moved : pointer);
  return moved;
}

void free(void* pointer) {
  Discount(pointer);
  __libc_free(pointer);
}

}  // extern "C"
