#include "proto/wire/attend_encode.h"

#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/message_lite.h"

namespace tessera::wire {
namespace {

using google::protobuf::io::CodedOutputStream;

struct PayloadField {
  int number = 0;
  PayloadSlices slices;
};

size_t TotalBytes(PayloadSlices slices) {
  size_t total = 0;
  for (const grpc::Slice& slice : slices) total += slice.size();
  return total;
}

// A tag with wire type 2, and a length.
uint8_t* WriteFieldPrefix(int number, size_t length, uint8_t* out) {
  out = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(number) << 3 | 2, out);
  return CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(length), out);
}

size_t FieldPrefixBytes(int number, size_t length) {
  return CodedOutputStream::VarintSize32(static_cast<uint32_t>(number) << 3 | 2) +
         CodedOutputStream::VarintSize32(static_cast<uint32_t>(length));
}

// `message`, then the payload fields that are not empty. Payload fields come last in every message, so that this is the
// order in which protobuf itself would write them.
grpc::ByteBuffer Encode(const google::protobuf::MessageLite& message, std::initializer_list<PayloadField> fields) {
  const size_t message_bytes = message.ByteSizeLong();
  size_t encoded_bytes = message_bytes;
  size_t slice_count = 1;
  for (const PayloadField& field : fields) {
    const size_t length = TotalBytes(field.slices);
    encoded_bytes += length + FieldPrefixBytes(field.number, length);
    slice_count += field.slices.size() + 1;
  }
  ABSL_RAW_CHECK(encoded_bytes <= kMaxMessageBytes, "a message is above 2 GiB");

  std::vector<grpc::Slice> slices;
  slices.reserve(slice_count);
  size_t head_bytes = message_bytes;  // still to be written in front of the next field's prefix
  for (const PayloadField& field : fields) {
    const size_t length = TotalBytes(field.slices);
    if (length == 0) continue;
    grpc::Slice head(head_bytes + FieldPrefixBytes(field.number, length));
    uint8_t* out = const_cast<uint8_t*>(head.begin());  // nobody else has a reference yet
    if (head_bytes > 0) out = message.SerializeWithCachedSizesToArray(out);
    WriteFieldPrefix(field.number, length, out);
    slices.push_back(std::move(head));
    slices.insert(slices.end(), field.slices.begin(), field.slices.end());
    head_bytes = 0;
  }
  if (head_bytes > 0) {
    grpc::Slice head(head_bytes);
    const uint8_t* const end = message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(head.begin()));
    ABSL_RAW_CHECK(end == head.end(), "as many bytes as were counted");
    slices.push_back(std::move(head));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace

grpc::Slice AliasSlice(absl::Span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  using Owner = std::shared_ptr<const void>;
  return grpc::Slice(
      const_cast<std::byte*>(bytes.data()), bytes.size(), [](void* held) { delete static_cast<Owner*>(held); },
      new Owner(std::move(owner)));
}

grpc::ByteBuffer EncodeAttendRequest(const v1::AttendRequest& message, PayloadSlices q, PayloadSlices k,
                                     PayloadSlices v) {
  ABSL_RAW_CHECK(message.q().empty() && message.k().empty() && message.v().empty(), "payload is given apart");
  return Encode(message, {{v1::AttendRequest::kQFieldNumber, q},
                          {v1::AttendRequest::kKFieldNumber, k},
                          {v1::AttendRequest::kVFieldNumber, v}});
}

grpc::ByteBuffer EncodeAttendResponse(const v1::AttendResponse& message, PayloadSlices o, PayloadSlices lse) {
  ABSL_RAW_CHECK(message.o().empty() && message.lse().empty(), "payload is given apart");
  return Encode(message, {{v1::AttendResponse::kOFieldNumber, o}, {v1::AttendResponse::kLseFieldNumber, lse}});
}

grpc::ByteBuffer EncodeAttendStreamRequest(const v1::AttendStreamRequest& message, PayloadSlices payload) {
  ABSL_RAW_CHECK(message.payload().empty(), "payload is given apart");
  return Encode(message, {{v1::AttendStreamRequest::kPayloadFieldNumber, payload}});
}

grpc::ByteBuffer EncodeAttendStreamResponse(const v1::AttendStreamResponse& message, PayloadSlices payload) {
  ABSL_RAW_CHECK(message.payload().empty(), "payload is given apart");
  return Encode(message, {{v1::AttendStreamResponse::kPayloadFieldNumber, payload}});
}

grpc::ByteBuffer EncodeExtendRequest(const v1::ExtendRequest& message, PayloadSlices q, PayloadSlices k,
                                     PayloadSlices v) {
  ABSL_RAW_CHECK(message.q().empty() && message.k().empty() && message.v().empty(), "payload is given apart");
  return Encode(message, {{v1::ExtendRequest::kQFieldNumber, q},
                          {v1::ExtendRequest::kKFieldNumber, k},
                          {v1::ExtendRequest::kVFieldNumber, v}});
}

grpc::ByteBuffer EncodeExtendStreamRequest(const v1::ExtendStreamRequest& message, PayloadSlices q, PayloadSlices k,
                                           PayloadSlices v) {
  ABSL_RAW_CHECK(message.q().empty() && message.k().empty() && message.v().empty(), "payload is given apart");
  return Encode(message, {{v1::ExtendStreamRequest::kQFieldNumber, q},
                          {v1::ExtendStreamRequest::kKFieldNumber, k},
                          {v1::ExtendStreamRequest::kVFieldNumber, v}});
}

grpc::ByteBuffer EncodeExtendResponse(const v1::ExtendResponse& message, PayloadSlices o, PayloadSlices lse) {
  ABSL_RAW_CHECK(message.o().empty() && message.lse().empty(), "payload is given apart");
  return Encode(message, {{v1::ExtendResponse::kOFieldNumber, o}, {v1::ExtendResponse::kLseFieldNumber, lse}});
}

grpc::ByteBuffer EncodeExtendStreamResponse(const v1::ExtendStreamResponse& message, PayloadSlices o,
                                            PayloadSlices lse) {
  ABSL_RAW_CHECK(message.o().empty() && message.lse().empty(), "payload is given apart");
  return Encode(message,
                {{v1::ExtendStreamResponse::kOFieldNumber, o}, {v1::ExtendStreamResponse::kLseFieldNumber, lse}});
}

}  // namespace tessera::wire
