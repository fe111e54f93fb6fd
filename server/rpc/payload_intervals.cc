#include "server/rpc/payload_intervals.h"

#include <iterator>

#include "absl/strings/str_cat.h"

namespace tessera {

absl::Status PayloadIntervals::Add(uint64_t offset, uint64_t length) {
  if (length == 0) return absl::OkStatus();
  if (offset > size_ || length > size_ - offset) {
    return absl::InvalidArgumentError(absl::StrCat("payload: ", length, " bytes at payload_offset ", offset,
                                                   " leave the ", size_, " bytes of q, k and v"));
  }
  uint64_t start = offset;
  uint64_t end = offset + length;
  const auto next = ranges_.lower_bound(start);
  const auto previous = next == ranges_.begin() ? ranges_.end() : std::prev(next);
  if ((next != ranges_.end() && next->first < end) || (previous != ranges_.end() && previous->second > start)) {
    return absl::InvalidArgumentError(absl::StrCat("payload_offset: bytes ", start, " to ", end, " came before"));
  }
  const bool joins_next = next != ranges_.end() && next->first == end;
  const bool joins_previous = previous != ranges_.end() && previous->second == start;
  if (!joins_next && !joins_previous && ranges_.size() == kMaxRanges) {
    return absl::InvalidArgumentError(
        absl::StrCat("payload_offset: more than ", kMaxRanges, " ranges with gaps between them"));
  }
  covered_ += length;
  if (joins_next) {
    end = next->second;
    ranges_.erase(next);
  }
  if (joins_previous) {
    previous->second = end;
  } else {
    ranges_.emplace(start, end);
  }
  return absl::OkStatus();
}

}  // namespace tessera
