// The codec beside protobuf's own parser, on arbitrary bytes.
#ifndef TESSERA_PROTO_WIRE_FUZZ_DIFFERENTIAL_H_
#define TESSERA_PROTO_WIRE_FUZZ_DIFFERENTIAL_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera::wire {

// Decodes `input`, cut into slices in several ways, and parses it with the generated classes. Nothing where both agree:
// both refuse it, or both take it and find the same in it, or the codec alone refuses it for one of the reasons that
// attend_decode.h names. Otherwise says what differs.
//
// The first byte of `input` picks the message type, the second seeds the cuts; the message follows.
std::optional<std::string> DifferenceFromProtobuf(absl::string_view input);

}  // namespace tessera::wire

#endif  // TESSERA_PROTO_WIRE_FUZZ_DIFFERENTIAL_H_
