// Which bytes of a payload have come.
#ifndef TESSERA_SERVER_RPC_PAYLOAD_INTERVALS_H_
#define TESSERA_SERVER_RPC_PAYLOAD_INTERVALS_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"

namespace tessera {

// Disjoint ranges of [0, size). Not thread-safe.
//
// Invariant: no two ranges touch; at most kMaxRanges of them, so that a caller who leaves gaps cannot make it grow.
class PayloadIntervals {
 public:
  static constexpr size_t kMaxRanges = 1024;

  explicit PayloadIntervals(uint64_t size) : size_(size) {}

  // Adds [offset, offset + length). INVALID_ARGUMENT, and no change, where it leaves the payload, overlaps what is
  // there, or makes one range too many.
  absl::Status Add(uint64_t offset, uint64_t length);

  uint64_t covered() const { return covered_; }
  bool complete() const { return covered_ == size_; }

 private:
  const uint64_t size_;
  uint64_t covered_ = 0;
  std::map<uint64_t, uint64_t> ranges_;  // start -> end
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_PAYLOAD_INTERVALS_H_
