// Messages of the echo service: a small header, and bytes that stand for tensors.
//
// The service's two methods mirror the two transports of Attend with nothing but bytes in them:
//   kEchoUnaryMethod   one message in, one out
//   kEchoStreamMethod  bidirectional: a call is several messages in, the last of which asks for the answer; the answer
//                      comes back in messages of at most kEchoChunkBytes
#ifndef TESSERA_CLIENT_CPP_LOAD_ECHO_MESSAGE_H_
#define TESSERA_CLIENT_CPP_LOAD_ECHO_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "grpcpp/support/byte_buffer.h"

namespace tessera::load {

inline constexpr char kEchoUnaryMethod[] = "/tessera.load.Echo/Unary";
inline constexpr char kEchoStreamMethod[] = "/tessera.load.Echo/Stream";
inline constexpr size_t kEchoChunkBytes = size_t{1} << 20;

inline constexpr uint64_t kEchoMoreToCome = ~uint64_t{0};

// 16 bytes, little-endian, before the payload.
struct EchoHeader {
  uint64_t id = 0;            // names the call within its stream
  uint64_t answer_bytes = 0;  // payload bytes wanted back; kEchoMoreToCome in all but the last message of a call
};
inline constexpr size_t kEchoHeaderBytes = 16;
inline constexpr uint64_t kMaxEchoAnswerBytes = uint64_t{1} << 30;

// A message whose payload aliases `payload`, which must stay valid until gRPC is done with the message.
grpc::ByteBuffer EchoRequest(const EchoHeader& header, absl::Span<const std::byte> payload);

// Nothing where the message is shorter than a header or asks for more than kMaxEchoAnswerBytes.
std::optional<EchoHeader> ReadEchoHeader(const grpc::ByteBuffer& message);

// Payload bytes of a message that has a header.
size_t EchoPayloadBytes(const grpc::ByteBuffer& message);

// The answer of `header.answer_bytes` payload bytes (REQUIRES: not kEchoMoreToCome), in messages of at most
// `max_payload` each, at least one. It is made of slices that share the bytes of `request`, and of zeros where those do
// not suffice; nothing is copied.
std::vector<grpc::ByteBuffer> EchoAnswer(const EchoHeader& header, const grpc::ByteBuffer& request, size_t max_payload);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_ECHO_MESSAGE_H_
