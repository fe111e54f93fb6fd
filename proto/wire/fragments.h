// For tests: bytes cut into slices in ways that a network might.
#ifndef TESSERA_PROTO_WIRE_FRAGMENTS_H_
#define TESSERA_PROTO_WIRE_FRAGMENTS_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

namespace tessera::wire {

// Pieces of 0 to `largest` bytes, by `rng`. Empty pieces are among them; `largest` = 1 gives slices of one byte.
inline std::vector<grpc::Slice> Fragment(absl::string_view bytes, size_t largest, std::mt19937_64& rng) {
  std::vector<grpc::Slice> slices;
  while (!bytes.empty()) {
    const size_t wanted = std::uniform_int_distribution<size_t>(0, largest)(rng);
    const size_t length = wanted < bytes.size() ? wanted : bytes.size();
    slices.emplace_back(bytes.data(), length);
    bytes.remove_prefix(length);
  }
  return slices;
}

// The bytes of all slices in one string.
inline std::string Join(const std::vector<grpc::Slice>& slices) {
  std::string joined;
  for (const grpc::Slice& slice : slices) joined.append(slice.begin(), slice.end());
  return joined;
}

inline std::string Join(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (buffer.Valid() && !buffer.Dump(&slices).ok()) return "(unreadable)";
  return Join(slices);
}

}  // namespace tessera::wire

#endif  // TESSERA_PROTO_WIRE_FRAGMENTS_H_
