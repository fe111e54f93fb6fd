// Reads the protobuf wire format from a list of slices, as if they were one run of bytes, without joining them.
//
// Bounded and overflow-safe: never reads outside the slices, whatever the bytes say. Every failure is INVALID_ARGUMENT;
// after one, the reader's position is unspecified and it must not be used again. Not thread-safe.
#ifndef TESSERA_PROTO_WIRE_SLICE_READER_H_
#define TESSERA_PROTO_WIRE_SLICE_READER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/slice.h"
#include "proto/wire/payload_ref.h"

namespace tessera::wire {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

struct Tag {
  uint32_t field = 0;  // 1 to 2^29 - 1
  WireType type = WireType::kVarint;
};

class SliceReader {
 public:
  // Sub-messages are gathered into contiguous memory for the generated parser, and this bounds how much of it one
  // message may ask for, over all its sub-messages.
  static constexpr size_t kMaxSubmessageBytes = size_t{1} << 20;

  // `slices` must outlive the reader and every PayloadRef it fills.
  explicit SliceReader(absl::Span<const grpc::Slice> slices);

  // True at the end of the last slice.
  bool done() const { return remaining_ == 0; }

  // The next field's number and type. Refuses field 0, groups (deprecated, and used by no message here) and the wire
  // types that do not exist.
  absl::StatusOr<Tag> ReadTag();

  // As protobuf does, drops bits beyond the 64th of a ten-byte varint.
  absl::StatusOr<uint64_t> ReadVarint();

  // A length and that many bytes, which become the ranges of `payload`; what it held before is dropped.
  absl::Status ReadPayload(PayloadRef* payload);

  // A length and that many bytes, parsed and merged into `message`, as protobuf does with a sub-message that comes
  // twice.
  absl::Status MergeSubmessage(google::protobuf::MessageLite* message);

  // Passes over the value that follows `tag`.
  absl::Status Skip(const Tag& tag);

 private:
  absl::StatusOr<uint8_t> ReadByte();
  absl::StatusOr<size_t> ReadLength();
  // Moves past the slices that have been read to their end. Afterwards, unless done(), at least one byte of the
  // current slice is left.
  void SkipEmptySlices();
  // Gives the next bytes of the current slice, at most `limit` of them, and moves past them. REQUIRES: !done().
  PayloadRef::Range TakeContiguous(size_t limit);

  absl::Span<const grpc::Slice> slices_;  // the first is the current one
  size_t position_ = 0;                   // within the current slice, in bytes
  size_t remaining_ = 0;                  // over all slices, in bytes
  size_t submessage_bytes_ = 0;           // seen so far
};

}  // namespace tessera::wire

#endif  // TESSERA_PROTO_WIRE_SLICE_READER_H_
