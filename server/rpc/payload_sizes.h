// Tensors of a message against the shapes that its header gives them.
#ifndef TESSERA_SERVER_RPC_PAYLOAD_SIZES_H_
#define TESSERA_SERVER_RPC_PAYLOAD_SIZES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tessera {

// INVALID_ARGUMENT naming the first of q, k and v that has another number of bytes than the shape needs. For requests
// of both services: wire::DecodedAttendRequest with AttendShape, wire::DecodedExtendRequest with ExtendShape.
template <typename Message, typename Shape>
absl::Status CheckPayloadSizes(const Message& message, const Shape& shape) {
  const auto check = [](const char* field, size_t received, int64_t expected) {
    if (received == static_cast<size_t>(expected)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": ", received, " bytes, the header's shape needs ", expected));
  };
  absl::Status status = check("q", message.q.size(), shape.q_bytes);
  if (status.ok()) status = check("k", message.k.size(), shape.kv_bytes);
  if (status.ok()) status = check("v", message.v.size(), shape.kv_bytes);
  return status;
}

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_PAYLOAD_SIZES_H_
