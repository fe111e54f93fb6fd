#include "proto/wire/slice_reader.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"

namespace tessera::wire {
namespace {

constexpr int kMaxTagBytes = 5;
constexpr int kMaxLengthBytes = 5;
constexpr int kMaxVarintBytes = 10;
// Protobuf's own cap on a length: INT_MAX less the bytes that its parser may look ahead.
constexpr uint64_t kMaxLength = std::numeric_limits<int32_t>::max() - 16;

absl::Status Truncated() { return absl::InvalidArgumentError("malformed message: it ends within a field"); }

bool MergeContiguous(PayloadRef::Range bytes, google::protobuf::MessageLite* message) {
  google::protobuf::io::CodedInputStream input(bytes.data(), static_cast<int>(bytes.size()));
  return message->MergePartialFromCodedStream(&input) && input.ConsumedEntireMessage();
}

}  // namespace

SliceReader::SliceReader(absl::Span<const grpc::Slice> slices) : slices_(slices) {
  for (const grpc::Slice& slice : slices) remaining_ += slice.size();
  SkipEmptySlices();
}

void SliceReader::SkipEmptySlices() {
  while (!slices_.empty() && position_ == slices_.front().size()) {
    slices_.remove_prefix(1);
    position_ = 0;
  }
}

PayloadRef::Range SliceReader::TakeContiguous(size_t limit) {
  const grpc::Slice& slice = slices_.front();
  const PayloadRef::Range range(slice.begin() + position_, std::min(limit, slice.size() - position_));
  position_ += range.size();
  remaining_ -= range.size();
  SkipEmptySlices();
  return range;
}

absl::StatusOr<uint8_t> SliceReader::ReadByte() {
  if (done()) return Truncated();
  return TakeContiguous(1).front();
}

absl::StatusOr<Tag> SliceReader::ReadTag() {
  uint64_t value = 0;
  for (int i = 0;; ++i) {
    if (i == kMaxTagBytes) return absl::InvalidArgumentError("malformed message: a tag is longer than 5 bytes");
    absl::StatusOr<uint8_t> byte = ReadByte();
    if (!byte.ok()) return byte.status();
    value |= uint64_t{*byte & 0x7fu} << (7 * i);
    if (*byte < 0x80) break;
  }
  const uint32_t tag = static_cast<uint32_t>(value);  // as protobuf does, drops bits beyond the 32nd
  const uint32_t field = tag >> 3;
  if (field == 0) return absl::InvalidArgumentError("malformed message: field number 0");
  switch (tag & 7) {
    case 0:
    case 1:
    case 2:
    case 5:
      return Tag{field, static_cast<WireType>(tag & 7)};
    case 3:
    case 4:
      return absl::InvalidArgumentError(absl::StrCat("field ", field, ": groups are not accepted"));
    default:
      return absl::InvalidArgumentError(absl::StrCat("malformed message: field ", field, " has wire type ", tag & 7));
  }
}

absl::StatusOr<uint64_t> SliceReader::ReadVarint() {
  uint64_t value = 0;
  for (int i = 0; i < kMaxVarintBytes; ++i) {
    absl::StatusOr<uint8_t> byte = ReadByte();
    if (!byte.ok()) return byte.status();
    value |= uint64_t{*byte & 0x7fu} << (7 * i);
    if (*byte < 0x80) return value;
  }
  return absl::InvalidArgumentError("malformed message: a varint is longer than 10 bytes");
}

absl::StatusOr<size_t> SliceReader::ReadLength() {
  uint64_t length = 0;
  for (int i = 0;; ++i) {
    if (i == kMaxLengthBytes) return absl::InvalidArgumentError("malformed message: a length is longer than 5 bytes");
    absl::StatusOr<uint8_t> byte = ReadByte();
    if (!byte.ok()) return byte.status();
    length |= uint64_t{*byte & 0x7fu} << (7 * i);
    if (*byte < 0x80) break;
  }
  if (length > kMaxLength) {
    return absl::InvalidArgumentError(absl::StrCat("malformed message: a length of ", length, " is above 2 GiB"));
  }
  if (length > remaining_) return Truncated();
  return static_cast<size_t>(length);
}

absl::Status SliceReader::ReadPayload(PayloadRef* payload) {
  payload->Clear();
  absl::StatusOr<size_t> length = ReadLength();
  if (!length.ok()) return length.status();
  while (payload->size() < *length) payload->Append(TakeContiguous(*length - payload->size()));
  return absl::OkStatus();
}

absl::Status SliceReader::MergeSubmessage(google::protobuf::MessageLite* message) {
  PayloadRef bytes;
  if (absl::Status status = ReadPayload(&bytes); !status.ok()) return status;
  submessage_bytes_ += bytes.size();
  if (submessage_bytes_ > kMaxSubmessageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the message's header parts take more than the limit of ", kMaxSubmessageBytes, " bytes"));
  }
  bool merged = true;
  if (bytes.ranges().size() == 1) {
    merged = MergeContiguous(bytes.ranges().front(), message);
  } else if (!bytes.empty()) {
    std::string joined;
    joined.reserve(bytes.size());
    for (const PayloadRef::Range& range : bytes.ranges()) joined.append(range.begin(), range.end());
    merged =
        MergeContiguous(PayloadRef::Range(reinterpret_cast<const uint8_t*>(joined.data()), joined.size()), message);
  }
  if (!merged) return absl::InvalidArgumentError(absl::StrCat("malformed message: ", message->GetTypeName()));
  return absl::OkStatus();
}

absl::Status SliceReader::Skip(const Tag& tag) {
  size_t length = 0;
  switch (tag.type) {
    case WireType::kVarint:
      return ReadVarint().status();
    case WireType::kFixed64:
      length = 8;
      break;
    case WireType::kFixed32:
      length = 4;
      break;
    case WireType::kLengthDelimited:
      absl::StatusOr<size_t> read = ReadLength();
      if (!read.ok()) return read.status();
      length = *read;
      break;
  }
  if (length > remaining_) return Truncated();
  while (length > 0) length -= TakeContiguous(length).size();
  return absl::OkStatus();
}

}  // namespace tessera::wire
