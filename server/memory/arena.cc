#include "server/memory/arena.h"

#include <iterator>

#include "absl/base/internal/raw_logging.h"

namespace tessera {

Arena::Arena(size_t capacity, size_t alignment) : capacity_(capacity / alignment * alignment), alignment_(alignment) {
  ABSL_RAW_CHECK(alignment > 0 && (alignment & (alignment - 1)) == 0, "alignment is a power of two");
  if (capacity_ > 0) AddFree(0, capacity_);
}

std::optional<size_t> Arena::Allocate(size_t bytes) {
  ABSL_RAW_CHECK(bytes > 0, "an allocation is not empty");
  if (bytes > capacity_) return std::nullopt;  // so that rounding up cannot overflow
  const size_t size = (bytes + alignment_ - 1) & ~(alignment_ - 1);
  const auto best = free_by_size_.lower_bound(Extent{size, 0});
  if (best == free_by_size_.end()) return std::nullopt;
  const Extent extent = *best;
  RemoveFree(extent.offset, extent.size);
  if (extent.size > size) AddFree(extent.offset + size, extent.size - size);
  used_.emplace(extent.offset, size);
  in_use_ += size;
  return extent.offset;
}

void Arena::Free(size_t offset) {
  const auto used = used_.find(offset);
  ABSL_RAW_CHECK(used != used_.end(), "freed what is not allocated");
  size_t start = offset;
  size_t size = used->second;
  in_use_ -= size;
  used_.erase(used);

  const auto next = free_by_offset_.upper_bound(start);
  if (next != free_by_offset_.begin()) {
    const auto [before, before_size] = *std::prev(next);
    if (before + before_size == start) {
      RemoveFree(before, before_size);
      start = before;
      size += before_size;
    }
  }
  if (next != free_by_offset_.end() && next->first == start + size) {
    const size_t after_size = next->second;
    RemoveFree(next->first, after_size);
    size += after_size;
  }
  AddFree(start, size);
}

size_t Arena::largest_free() const { return free_by_size_.empty() ? 0 : free_by_size_.rbegin()->size; }

void Arena::AddFree(size_t offset, size_t size) {
  free_by_offset_.emplace(offset, size);
  free_by_size_.insert(Extent{size, offset});
}

void Arena::RemoveFree(size_t offset, size_t size) {
  free_by_offset_.erase(offset);
  free_by_size_.erase(Extent{size, offset});
}

}  // namespace tessera
