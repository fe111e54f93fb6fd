// Tensor bytes of a received message, where they lie in its slices.
//
// A view: valid while the slices are. Copying a PayloadRef copies the list of ranges, never the bytes. Not thread-safe
// for writing; concurrent reads are fine.
#ifndef TESSERA_PROTO_WIRE_PAYLOAD_REF_H_
#define TESSERA_PROTO_WIRE_PAYLOAD_REF_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace tessera::wire {

class PayloadRef {
 public:
  using Range = absl::Span<const uint8_t>;

  // Bytes in all ranges.
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // In order; none is empty.
  absl::Span<const Range> ranges() const { return ranges_; }

  // Puts `range` behind the others. An empty one is dropped.
  void Append(Range range);
  void Clear();

  // The part [offset, offset + length). REQUIRES: it lies within size().
  PayloadRef Subrange(size_t offset, size_t length) const;

  // Copies size() bytes to `destination` and adds them to PayloadBytesCopied(). This is the only copy of tensor bytes
  // that the codec can make.
  void CopyTo(std::byte* destination) const;

 private:
  absl::InlinedVector<Range, 4> ranges_;
  size_t size_ = 0;
};

// Bytes that CopyTo has moved in this process since it started. Thread-safe.
uint64_t PayloadBytesCopied();

}  // namespace tessera::wire

#endif  // TESSERA_PROTO_WIRE_PAYLOAD_REF_H_
