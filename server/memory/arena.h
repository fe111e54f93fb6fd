// A suballocator that deals in offsets, so that it can manage memory it cannot touch (a GPU's).
#ifndef TESSERA_SERVER_MEMORY_ARENA_H_
#define TESSERA_SERVER_MEMORY_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "absl/container/flat_hash_map.h"

namespace tessera {

// Best fit over a set of free extents, neighbours merged on free: O(log extents) a call. Not thread-safe.
//
// Invariants: free and used extents tile [0, capacity) exactly; no two free extents touch; every start and size is a
// multiple of `alignment`.
class Arena {
 public:
  // REQUIRES: alignment is a power of two. Capacity is rounded down to it.
  Arena(size_t capacity, size_t alignment);

  // Offset of `bytes` rounded up to the alignment, or nothing where no free extent is large enough. REQUIRES: bytes >
  // 0.
  std::optional<size_t> Allocate(size_t bytes);
  // REQUIRES: `offset` came from Allocate and has not been freed since.
  void Free(size_t offset);

  size_t capacity() const { return capacity_; }
  size_t in_use() const { return in_use_; }
  size_t largest_free() const;

 private:
  struct Extent {
    size_t size;
    size_t offset;
    friend auto operator<=>(const Extent&, const Extent&) = default;
  };

  void AddFree(size_t offset, size_t size);
  void RemoveFree(size_t offset, size_t size);

  size_t capacity_;
  size_t alignment_;
  size_t in_use_ = 0;
  std::map<size_t, size_t> free_by_offset_;  // offset -> size
  std::set<Extent> free_by_size_;
  absl::flat_hash_map<size_t, size_t> used_;  // offset -> size
};

}  // namespace tessera

#endif  // TESSERA_SERVER_MEMORY_ARENA_H_
