#include "proto/wire/fuzz/differential.h"

#include <random>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/wire/attend_decode.h"
#include "proto/wire/fragments.h"

namespace tessera::wire {
namespace {

std::string Copied(const PayloadRef& payload) {
  std::string copy(payload.size(), '\0');
  payload.CopyTo(reinterpret_cast<std::byte*>(copy.data()));
  return copy;
}

// Unknown fields within sub-messages are kept by both parsers. Bitwise, so that a NaN equals itself.
template <typename Message>
bool Same(const std::optional<Message>& decoded, bool present, const Message& parsed) {
  if (decoded.has_value() != present) return false;
  return !present || decoded->SerializeAsString() == parsed.SerializeAsString();
}

bool Same(const DecodedAttendRequest& decoded, const v1::AttendRequest& parsed) {
  return Same(decoded.header, parsed.has_header(), parsed.header()) && Copied(decoded.q) == parsed.q() &&
         Copied(decoded.k) == parsed.k() && Copied(decoded.v) == parsed.v();
}

bool Same(const DecodedAttendResponse& decoded, const v1::AttendResponse& parsed) {
  return Same(decoded.result, parsed.has_result(), parsed.result()) && Copied(decoded.o) == parsed.o() &&
         Copied(decoded.lse) == parsed.lse();
}

bool Same(const DecodedAttendStreamRequest& decoded, const v1::AttendStreamRequest& parsed) {
  return decoded.id == parsed.id() && Same(decoded.header, parsed.has_header(), parsed.header()) &&
         decoded.timeout_us == parsed.timeout_us() && Same(decoded.stripe, parsed.has_stripe(), parsed.stripe()) &&
         decoded.cancel == parsed.cancel() && decoded.payload_offset == parsed.payload_offset() &&
         Copied(decoded.payload) == parsed.payload();
}

bool Same(const DecodedAttendStreamResponse& decoded, const v1::AttendStreamResponse& parsed) {
  return decoded.id == parsed.id() && Same(decoded.result, parsed.has_result(), parsed.result()) &&
         Same(decoded.status, parsed.has_status(), parsed.status()) &&
         decoded.payload_offset == parsed.payload_offset() && Copied(decoded.payload) == parsed.payload();
}

bool Same(const DecodedExtendRequest& decoded, const v1::ExtendRequest& parsed) {
  return Same(decoded.header, parsed.has_header(), parsed.header()) && Copied(decoded.q) == parsed.q() &&
         Copied(decoded.k) == parsed.k() && Copied(decoded.v) == parsed.v();
}

bool Same(const DecodedExtendStreamRequest& decoded, const v1::ExtendStreamRequest& parsed) {
  return decoded.id == parsed.id() && Same(decoded.header, parsed.has_header(), parsed.header()) &&
         decoded.timeout_us == parsed.timeout_us() && decoded.cancel == parsed.cancel() &&
         Copied(decoded.q) == parsed.q() && Copied(decoded.k) == parsed.k() && Copied(decoded.v) == parsed.v();
}

bool Same(const DecodedExtendResponse& decoded, const v1::ExtendResponse& parsed) {
  return Same(decoded.result, parsed.has_result(), parsed.result()) && Copied(decoded.o) == parsed.o() &&
         Copied(decoded.lse) == parsed.lse();
}

bool Same(const DecodedExtendStreamResponse& decoded, const v1::ExtendStreamResponse& parsed) {
  return decoded.id == parsed.id() && Same(decoded.result, parsed.has_result(), parsed.result()) &&
         Same(decoded.status, parsed.has_status(), parsed.status()) && Copied(decoded.o) == parsed.o() &&
         Copied(decoded.lse) == parsed.lse();
}

bool MayRefuseAlone(const absl::Status& status) {
  return absl::StrContains(status.message(), "has wire type") || absl::StrContains(status.message(), "groups") ||
         absl::StrContains(status.message(), "header parts");
}

template <typename Message, typename Decoded>
std::optional<std::string> Compare(absl::string_view bytes, uint64_t seed,
                                   absl::StatusOr<Decoded> (*decode)(std::vector<grpc::Slice>)) {
  Message parsed;
  const bool parses = parsed.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  std::mt19937_64 rng(seed);
  for (const size_t largest : {bytes.size() + 1, size_t{1}, size_t{7}}) {
    const absl::StatusOr<Decoded> decoded = decode(Fragment(bytes, largest, rng));
    if (decoded.ok() != parses && !(parses && MayRefuseAlone(decoded.status()))) {
      return absl::StrCat(parsed.GetTypeName(), " in slices of up to ", largest, " bytes: protobuf ",
                          parses ? "takes" : "refuses", " it, the codec says ", decoded.status().ToString());
    }
    if (decoded.ok() && !Same(*decoded, parsed)) {
      return absl::StrCat(parsed.GetTypeName(), " in slices of up to ", largest,
                          " bytes: the codec finds something else than protobuf in it: ", parsed.ShortDebugString());
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> DifferenceFromProtobuf(absl::string_view input) {
  if (input.size() < 2) return std::nullopt;
  const uint8_t type = static_cast<uint8_t>(input[0]) % 8;
  const uint8_t seed = static_cast<uint8_t>(input[1]);
  input.remove_prefix(2);
  switch (type) {
    case 0:
      return Compare<v1::AttendRequest, DecodedAttendRequest>(input, seed, &DecodeAttendRequest);
    case 1:
      return Compare<v1::AttendResponse, DecodedAttendResponse>(input, seed, &DecodeAttendResponse);
    case 2:
      return Compare<v1::AttendStreamRequest, DecodedAttendStreamRequest>(input, seed, &DecodeAttendStreamRequest);
    case 3:
      return Compare<v1::AttendStreamResponse, DecodedAttendStreamResponse>(input, seed, &DecodeAttendStreamResponse);
    case 4:
      return Compare<v1::ExtendRequest, DecodedExtendRequest>(input, seed, &DecodeExtendRequest);
    case 5:
      return Compare<v1::ExtendStreamRequest, DecodedExtendStreamRequest>(input, seed, &DecodeExtendStreamRequest);
    case 6:
      return Compare<v1::ExtendResponse, DecodedExtendResponse>(input, seed, &DecodeExtendResponse);
    default:
      return Compare<v1::ExtendStreamResponse, DecodedExtendStreamResponse>(input, seed, &DecodeExtendStreamResponse);
  }
}

}  // namespace tessera::wire
