#include "proto/wire/attend_decode.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/wire/slice_reader.h"

namespace tessera::wire {
namespace {

absl::Status CheckType(const Tag& tag, WireType expected) {
  if (tag.type == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("malformed message: field ", tag.field, " has wire type ",
                                                 static_cast<int>(tag.type), ", expected ",
                                                 static_cast<int>(expected)));
}

absl::Status ReadField(const Tag& tag, SliceReader& reader, uint64_t* value) {
  if (absl::Status status = CheckType(tag, WireType::kVarint); !status.ok()) return status;
  absl::StatusOr<uint64_t> read = reader.ReadVarint();
  if (!read.ok()) return read.status();
  *value = *read;
  return absl::OkStatus();
}

absl::Status ReadField(const Tag& tag, SliceReader& reader, bool* value) {
  uint64_t number = 0;
  if (absl::Status status = ReadField(tag, reader, &number); !status.ok()) return status;
  *value = number != 0;
  return absl::OkStatus();
}

absl::Status ReadField(const Tag& tag, SliceReader& reader, PayloadRef* payload) {
  if (absl::Status status = CheckType(tag, WireType::kLengthDelimited); !status.ok()) return status;
  return reader.ReadPayload(payload);
}

template <typename Message>
absl::Status ReadField(const Tag& tag, SliceReader& reader, std::optional<Message>* message) {
  if (absl::Status status = CheckType(tag, WireType::kLengthDelimited); !status.ok()) return status;
  if (!message->has_value()) message->emplace();
  return reader.MergeSubmessage(&**message);
}

absl::Status ReadMessageField(const Tag& tag, SliceReader& reader, DecodedAttendRequest* out) {
  switch (tag.field) {
    case v1::AttendRequest::kHeaderFieldNumber:
      return ReadField(tag, reader, &out->header);
    case v1::AttendRequest::kQFieldNumber:
      return ReadField(tag, reader, &out->q);
    case v1::AttendRequest::kKFieldNumber:
      return ReadField(tag, reader, &out->k);
    case v1::AttendRequest::kVFieldNumber:
      return ReadField(tag, reader, &out->v);
    default:
      return reader.Skip(tag);
  }
}

absl::Status ReadMessageField(const Tag& tag, SliceReader& reader, DecodedAttendResponse* out) {
  switch (tag.field) {
    case v1::AttendResponse::kResultFieldNumber:
      return ReadField(tag, reader, &out->result);
    case v1::AttendResponse::kOFieldNumber:
      return ReadField(tag, reader, &out->o);
    case v1::AttendResponse::kLseFieldNumber:
      return ReadField(tag, reader, &out->lse);
    default:
      return reader.Skip(tag);
  }
}

absl::Status ReadMessageField(const Tag& tag, SliceReader& reader, DecodedAttendStreamRequest* out) {
  switch (tag.field) {
    case v1::AttendStreamRequest::kIdFieldNumber:
      return ReadField(tag, reader, &out->id);
    case v1::AttendStreamRequest::kHeaderFieldNumber:
      return ReadField(tag, reader, &out->header);
    case v1::AttendStreamRequest::kTimeoutUsFieldNumber:
      return ReadField(tag, reader, &out->timeout_us);
    case v1::AttendStreamRequest::kStripeFieldNumber:
      return ReadField(tag, reader, &out->stripe);
    case v1::AttendStreamRequest::kCancelFieldNumber:
      return ReadField(tag, reader, &out->cancel);
    case v1::AttendStreamRequest::kPayloadOffsetFieldNumber:
      return ReadField(tag, reader, &out->payload_offset);
    case v1::AttendStreamRequest::kPayloadFieldNumber:
      return ReadField(tag, reader, &out->payload);
    default:
      return reader.Skip(tag);
  }
}

absl::Status ReadMessageField(const Tag& tag, SliceReader& reader, DecodedAttendStreamResponse* out) {
  switch (tag.field) {
    case v1::AttendStreamResponse::kIdFieldNumber:
      return ReadField(tag, reader, &out->id);
    case v1::AttendStreamResponse::kResultFieldNumber:
      return ReadField(tag, reader, &out->result);
    case v1::AttendStreamResponse::kStatusFieldNumber:
      return ReadField(tag, reader, &out->status);
    case v1::AttendStreamResponse::kPayloadOffsetFieldNumber:
      return ReadField(tag, reader, &out->payload_offset);
    case v1::AttendStreamResponse::kPayloadFieldNumber:
      return ReadField(tag, reader, &out->payload);
    default:
      return reader.Skip(tag);
  }
}

absl::Status ReadMessageField(const Tag& tag, SliceReader& reader, DecodedExtendRequest* out) {
  switch (tag.field) {
    case v1::ExtendRequest::kHeaderFieldNumber:
      return ReadField(tag, reader, &out->header);
    case v1::ExtendRequest::kQFieldNumber:
      return ReadField(tag, reader, &out->q);
    case v1::ExtendRequest::kKFieldNumber:
      return ReadField(tag, reader, &out->k);
    case v1::ExtendRequest::kVFieldNumber:
      return ReadField(tag, reader, &out->v);
    default:
      return reader.Skip(tag);
  }
}

absl::Status ReadMessageField(const Tag& tag, SliceReader& reader, DecodedExtendStreamRequest* out) {
  switch (tag.field) {
    case v1::ExtendStreamRequest::kIdFieldNumber:
      return ReadField(tag, reader, &out->id);
    case v1::ExtendStreamRequest::kHeaderFieldNumber:
      return ReadField(tag, reader, &out->header);
    case v1::ExtendStreamRequest::kTimeoutUsFieldNumber:
      return ReadField(tag, reader, &out->timeout_us);
    case v1::ExtendStreamRequest::kCancelFieldNumber:
      return ReadField(tag, reader, &out->cancel);
    case v1::ExtendStreamRequest::kQFieldNumber:
      return ReadField(tag, reader, &out->q);
    case v1::ExtendStreamRequest::kKFieldNumber:
      return ReadField(tag, reader, &out->k);
    case v1::ExtendStreamRequest::kVFieldNumber:
      return ReadField(tag, reader, &out->v);
    default:
      return reader.Skip(tag);
  }
}

absl::Status ReadMessageField(const Tag& tag, SliceReader& reader, DecodedExtendResponse* out) {
  switch (tag.field) {
    case v1::ExtendResponse::kResultFieldNumber:
      return ReadField(tag, reader, &out->result);
    case v1::ExtendResponse::kOFieldNumber:
      return ReadField(tag, reader, &out->o);
    case v1::ExtendResponse::kLseFieldNumber:
      return ReadField(tag, reader, &out->lse);
    default:
      return reader.Skip(tag);
  }
}

absl::Status ReadMessageField(const Tag& tag, SliceReader& reader, DecodedExtendStreamResponse* out) {
  switch (tag.field) {
    case v1::ExtendStreamResponse::kIdFieldNumber:
      return ReadField(tag, reader, &out->id);
    case v1::ExtendStreamResponse::kResultFieldNumber:
      return ReadField(tag, reader, &out->result);
    case v1::ExtendStreamResponse::kStatusFieldNumber:
      return ReadField(tag, reader, &out->status);
    case v1::ExtendStreamResponse::kOFieldNumber:
      return ReadField(tag, reader, &out->o);
    case v1::ExtendStreamResponse::kLseFieldNumber:
      return ReadField(tag, reader, &out->lse);
    default:
      return reader.Skip(tag);
  }
}

template <typename Decoded>
absl::StatusOr<Decoded> Decode(std::vector<grpc::Slice> slices) {
  Decoded out;
  out.slices = SliceList(std::move(slices));
  SliceReader reader(out.slices.slices());
  while (!reader.done()) {
    absl::StatusOr<Tag> tag = reader.ReadTag();
    if (!tag.ok()) return tag.status();
    if (absl::Status status = ReadMessageField(*tag, reader, &out); !status.ok()) return status;
  }
  return out;
}

template <typename Decoded>
absl::StatusOr<Decoded> Decode(const grpc::ByteBuffer& buffer) {
  absl::StatusOr<std::vector<grpc::Slice>> slices = Slices(buffer);
  if (!slices.ok()) return slices.status();
  return Decode<Decoded>(*std::move(slices));
}

}  // namespace

absl::StatusOr<std::vector<grpc::Slice>> Slices(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Valid()) return slices;
  if (grpc::Status status = buffer.Dump(&slices); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("unreadable message: ", status.error_message()));
  }
  return slices;
}

absl::StatusOr<DecodedAttendRequest> DecodeAttendRequest(std::vector<grpc::Slice> slices) {
  return Decode<DecodedAttendRequest>(std::move(slices));
}
absl::StatusOr<DecodedAttendRequest> DecodeAttendRequest(const grpc::ByteBuffer& buffer) {
  return Decode<DecodedAttendRequest>(buffer);
}

absl::StatusOr<DecodedAttendResponse> DecodeAttendResponse(std::vector<grpc::Slice> slices) {
  return Decode<DecodedAttendResponse>(std::move(slices));
}
absl::StatusOr<DecodedAttendResponse> DecodeAttendResponse(const grpc::ByteBuffer& buffer) {
  return Decode<DecodedAttendResponse>(buffer);
}

absl::StatusOr<DecodedAttendStreamRequest> DecodeAttendStreamRequest(std::vector<grpc::Slice> slices) {
  return Decode<DecodedAttendStreamRequest>(std::move(slices));
}
absl::StatusOr<DecodedAttendStreamRequest> DecodeAttendStreamRequest(const grpc::ByteBuffer& buffer) {
  return Decode<DecodedAttendStreamRequest>(buffer);
}

absl::StatusOr<DecodedAttendStreamResponse> DecodeAttendStreamResponse(std::vector<grpc::Slice> slices) {
  return Decode<DecodedAttendStreamResponse>(std::move(slices));
}
absl::StatusOr<DecodedAttendStreamResponse> DecodeAttendStreamResponse(const grpc::ByteBuffer& buffer) {
  return Decode<DecodedAttendStreamResponse>(buffer);
}

absl::StatusOr<DecodedExtendRequest> DecodeExtendRequest(std::vector<grpc::Slice> slices) {
  return Decode<DecodedExtendRequest>(std::move(slices));
}
absl::StatusOr<DecodedExtendRequest> DecodeExtendRequest(const grpc::ByteBuffer& buffer) {
  return Decode<DecodedExtendRequest>(buffer);
}

absl::StatusOr<DecodedExtendStreamRequest> DecodeExtendStreamRequest(std::vector<grpc::Slice> slices) {
  return Decode<DecodedExtendStreamRequest>(std::move(slices));
}
absl::StatusOr<DecodedExtendStreamRequest> DecodeExtendStreamRequest(const grpc::ByteBuffer& buffer) {
  return Decode<DecodedExtendStreamRequest>(buffer);
}

absl::StatusOr<DecodedExtendResponse> DecodeExtendResponse(std::vector<grpc::Slice> slices) {
  return Decode<DecodedExtendResponse>(std::move(slices));
}
absl::StatusOr<DecodedExtendResponse> DecodeExtendResponse(const grpc::ByteBuffer& buffer) {
  return Decode<DecodedExtendResponse>(buffer);
}

absl::StatusOr<DecodedExtendStreamResponse> DecodeExtendStreamResponse(std::vector<grpc::Slice> slices) {
  return Decode<DecodedExtendStreamResponse>(std::move(slices));
}
absl::StatusOr<DecodedExtendStreamResponse> DecodeExtendStreamResponse(const grpc::ByteBuffer& buffer) {
  return Decode<DecodedExtendStreamResponse>(buffer);
}

}  // namespace tessera::wire
