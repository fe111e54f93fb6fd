#include "proto/wire/payload_ref.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "absl/base/internal/raw_logging.h"

namespace tessera::wire {
namespace {

std::atomic<uint64_t> payload_bytes_copied{0};

}  // namespace

void PayloadRef::Append(Range range) {
  if (range.empty()) return;
  ranges_.push_back(range);
  size_ += range.size();
}

void PayloadRef::Clear() {
  ranges_.clear();
  size_ = 0;
}

PayloadRef PayloadRef::Subrange(size_t offset, size_t length) const {
  ABSL_RAW_CHECK(offset <= size_ && length <= size_ - offset, "subrange lies outside the payload");
  PayloadRef part;
  for (const Range& range : ranges_) {
    if (length == 0) break;
    if (offset >= range.size()) {
      offset -= range.size();
      continue;
    }
    const Range piece = range.subspan(offset, length);
    part.Append(piece);
    offset = 0;
    length -= piece.size();
  }
  return part;
}

void PayloadRef::CopyTo(std::byte* destination) const {
  for (const Range& range : ranges_) {
    std::memcpy(destination, range.data(), range.size());
    destination += range.size();
  }
  payload_bytes_copied.fetch_add(size_, std::memory_order_relaxed);
}

uint64_t PayloadBytesCopied() { return payload_bytes_copied.load(std::memory_order_relaxed); }

}  // namespace tessera::wire
