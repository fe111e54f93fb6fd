// Takes the messages of AttentionService, and those of SequenceService that carry tensors, apart without copying
// tensors.
//
// Each Decode function accepts what protobuf's own parser would, with these exceptions, all INVALID_ARGUMENT: a known
// field with a wrong wire type, a group, and sub-messages above SliceReader::kMaxSubmessageBytes. Fields may come in
// any order; of a scalar or payload field that comes twice the last counts, sub-messages that come twice are merged,
// and unknown fields are passed over. What the values mean is not checked here.
#ifndef TESSERA_PROTO_WIRE_ATTEND_DECODE_H_
#define TESSERA_PROTO_WIRE_ATTEND_DECODE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "proto/wire/payload_ref.h"
#include "tessera/v1/attention.pb.h"
#include "tessera/v1/sequence.pb.h"

namespace tessera::wire {

// The slices of one message; a PayloadRef into them lives as long as they do. Move-only, so that no copy is left
// pointing at another's slices; moving leaves the payload bytes where they are.
class SliceList {
 public:
  SliceList() = default;
  explicit SliceList(std::vector<grpc::Slice> slices) : slices_(std::move(slices)) {}
  SliceList(SliceList&&) = default;
  SliceList& operator=(SliceList&&) = default;

  const std::vector<grpc::Slice>& slices() const { return slices_; }

 private:
  std::vector<grpc::Slice> slices_;
};

struct DecodedAttendRequest {
  SliceList slices;
  std::optional<v1::AttendHeader> header;
  PayloadRef q;
  PayloadRef k;
  PayloadRef v;
};

struct DecodedAttendResponse {
  SliceList slices;
  std::optional<v1::AttendResult> result;
  PayloadRef o;
  PayloadRef lse;
};

struct DecodedAttendStreamRequest {
  SliceList slices;
  uint64_t id = 0;
  std::optional<v1::AttendHeader> header;
  uint64_t timeout_us = 0;
  std::optional<v1::Stripe> stripe;
  bool cancel = false;
  uint64_t payload_offset = 0;
  PayloadRef payload;
};

struct DecodedAttendStreamResponse {
  SliceList slices;
  uint64_t id = 0;
  std::optional<v1::AttendResult> result;
  std::optional<v1::CallStatus> status;
  uint64_t payload_offset = 0;
  PayloadRef payload;
};

struct DecodedExtendRequest {
  SliceList slices;
  std::optional<v1::ExtendHeader> header;
  PayloadRef q;
  PayloadRef k;
  PayloadRef v;
};

struct DecodedExtendStreamRequest : DecodedExtendRequest {
  uint64_t id = 0;
  uint64_t timeout_us = 0;
  bool cancel = false;
};

struct DecodedExtendResponse {
  SliceList slices;
  std::optional<v1::ExtendResult> result;
  PayloadRef o;
  PayloadRef lse;
};

struct DecodedExtendStreamResponse : DecodedExtendResponse {
  uint64_t id = 0;
  std::optional<v1::CallStatus> status;
};

// The slices that `buffer` consists of, by reference.
absl::StatusOr<std::vector<grpc::Slice>> Slices(const grpc::ByteBuffer& buffer);

absl::StatusOr<DecodedAttendRequest> DecodeAttendRequest(std::vector<grpc::Slice> slices);
absl::StatusOr<DecodedAttendRequest> DecodeAttendRequest(const grpc::ByteBuffer& buffer);

absl::StatusOr<DecodedAttendResponse> DecodeAttendResponse(std::vector<grpc::Slice> slices);
absl::StatusOr<DecodedAttendResponse> DecodeAttendResponse(const grpc::ByteBuffer& buffer);

absl::StatusOr<DecodedAttendStreamRequest> DecodeAttendStreamRequest(std::vector<grpc::Slice> slices);
absl::StatusOr<DecodedAttendStreamRequest> DecodeAttendStreamRequest(const grpc::ByteBuffer& buffer);

absl::StatusOr<DecodedAttendStreamResponse> DecodeAttendStreamResponse(std::vector<grpc::Slice> slices);
absl::StatusOr<DecodedAttendStreamResponse> DecodeAttendStreamResponse(const grpc::ByteBuffer& buffer);

absl::StatusOr<DecodedExtendRequest> DecodeExtendRequest(std::vector<grpc::Slice> slices);
absl::StatusOr<DecodedExtendRequest> DecodeExtendRequest(const grpc::ByteBuffer& buffer);

absl::StatusOr<DecodedExtendStreamRequest> DecodeExtendStreamRequest(std::vector<grpc::Slice> slices);
absl::StatusOr<DecodedExtendStreamRequest> DecodeExtendStreamRequest(const grpc::ByteBuffer& buffer);

absl::StatusOr<DecodedExtendResponse> DecodeExtendResponse(std::vector<grpc::Slice> slices);
absl::StatusOr<DecodedExtendResponse> DecodeExtendResponse(const grpc::ByteBuffer& buffer);

absl::StatusOr<DecodedExtendStreamResponse> DecodeExtendStreamResponse(std::vector<grpc::Slice> slices);
absl::StatusOr<DecodedExtendStreamResponse> DecodeExtendStreamResponse(const grpc::ByteBuffer& buffer);

}  // namespace tessera::wire

#endif  // TESSERA_PROTO_WIRE_ATTEND_DECODE_H_
