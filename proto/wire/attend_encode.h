// Puts the messages of AttentionService, and those of SequenceService that carry tensors, together without copying
// tensors: the small fields are serialized into a slice of their own, and the payload slices follow as they are.
//
// Thread-safe, all of it. REQUIRES of each Encode function: the payload fields of the message are empty, and the
// encoded message takes at most kMaxMessageBytes.
#ifndef TESSERA_PROTO_WIRE_ATTEND_ENCODE_H_
#define TESSERA_PROTO_WIRE_ATTEND_ENCODE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "tessera/v1/attention.pb.h"
#include "tessera/v1/sequence.pb.h"

namespace tessera::wire {

// The largest message that protobuf parsers take.
inline constexpr size_t kMaxMessageBytes = 0x7fffffff - 16;

// A slice of `bytes` themselves. `owner` is let go once gRPC has sent them or given up, on whatever thread that
// happens; until then the bytes must stay as they are.
grpc::Slice AliasSlice(absl::Span<const std::byte> bytes, std::shared_ptr<const void> owner);

// One payload field's bytes: any number of slices, laid end to end. The slices are referenced, not copied.
using PayloadSlices = absl::Span<const grpc::Slice>;

grpc::ByteBuffer EncodeAttendRequest(const v1::AttendRequest& message, PayloadSlices q, PayloadSlices k,
                                     PayloadSlices v);
grpc::ByteBuffer EncodeAttendResponse(const v1::AttendResponse& message, PayloadSlices o, PayloadSlices lse);
grpc::ByteBuffer EncodeAttendStreamRequest(const v1::AttendStreamRequest& message, PayloadSlices payload);
grpc::ByteBuffer EncodeAttendStreamResponse(const v1::AttendStreamResponse& message, PayloadSlices payload);
grpc::ByteBuffer EncodeExtendRequest(const v1::ExtendRequest& message, PayloadSlices q, PayloadSlices k,
                                     PayloadSlices v);
grpc::ByteBuffer EncodeExtendStreamRequest(const v1::ExtendStreamRequest& message, PayloadSlices q, PayloadSlices k,
                                           PayloadSlices v);
grpc::ByteBuffer EncodeExtendResponse(const v1::ExtendResponse& message, PayloadSlices o, PayloadSlices lse);
grpc::ByteBuffer EncodeExtendStreamResponse(const v1::ExtendStreamResponse& message, PayloadSlices o,
                                            PayloadSlices lse);

}  // namespace tessera::wire

#endif  // TESSERA_PROTO_WIRE_ATTEND_ENCODE_H_
