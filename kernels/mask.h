// Which keys rows see, as ranges: the one place where a mask becomes numbers. Every backend, the traffic model and the
// statistics use it.
//
// With bottom-right alignment both ends of a row's range never decrease from one row to the next. So a block of rows
// sees [begin of its first row, end of its last row), and all of its rows see [begin of its last row, end of its first
// row): between the two lie the tiles that need masking, outside of the first those that are skipped.
#ifndef TESSERA_KERNELS_MASK_H_
#define TESSERA_KERNELS_MASK_H_

#include <algorithm>
#include <cstdint>

#include "kernels/attention.h"

namespace tessera {

// Keys begin <= j < end; empty where begin == end.
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;

  constexpr int64_t size() const { return end - begin; }
  constexpr bool empty() const { return begin >= end; }

  friend constexpr bool operator==(const KeyRange&, const KeyRange&) = default;
};

// A mask over one sequence's rows and keys. REQUIRES: non-negative lengths, mask sides >= -1.
class MaskGeometry {
 public:
  constexpr MaskGeometry(const Mask& mask, int64_t q_len, int64_t kv_len)
      : mask_(mask), q_len_(q_len), kv_len_(kv_len) {}

  // Keys that row `row` sees. Free of overflow for windows up to the largest int64_t. REQUIRES: 0 <= row < q_len.
  constexpr KeyRange VisibleTo(int64_t row) const {
    const int64_t position = row + kv_len_ - q_len_;
    const int64_t after = q_len_ - 1 - row;  // keys after the row's own position
    const int64_t begin = mask_.left == Mask::kUnbounded || mask_.left >= position ? 0 : position - mask_.left;
    const int64_t end = mask_.right == Mask::kUnbounded || mask_.right >= after ? kv_len_ : position + mask_.right + 1;
    return {begin, std::max(begin, end)};
  }

  // Keys that at least one of the rows first..last sees (a range, since the rows' ranges move forward together).
  constexpr KeyRange VisibleToAny(int64_t first, int64_t last) const {
    const int64_t begin = VisibleTo(first).begin;
    return {begin, std::max(begin, VisibleTo(last).end)};
  }

  // Keys that every one of the rows first..last sees; empty where there is none.
  constexpr KeyRange VisibleToAll(int64_t first, int64_t last) const {
    const int64_t begin = VisibleTo(last).begin;
    return {begin, std::max(begin, VisibleTo(first).end)};
  }

  // Visible (row, key) pairs of all rows. REQUIRES: q_len * kv_len < 2^63.
  constexpr int64_t VisiblePairs() const {
    int64_t pairs = 0;
    for (int64_t row = 0; row < q_len_; ++row) {
      const KeyRange keys = VisibleTo(row);
      if (keys.size() == kv_len_ && VisibleTo(q_len_ - 1).size() == kv_len_) {
        return pairs + (q_len_ - row) * kv_len_;  // both ends are monotone: all later rows see everything too
      }
      pairs += keys.size();
    }
    return pairs;
  }

 private:
  Mask mask_;
  int64_t q_len_;
  int64_t kv_len_;
};

}  // namespace tessera

#endif  // TESSERA_KERNELS_MASK_H_
