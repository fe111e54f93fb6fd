// What the first bytes of a sequence's handle say: which server keeps it.
#ifndef TESSERA_PROTO_WIRE_SERVER_ID_H_
#define TESSERA_PROTO_WIRE_SERVER_ID_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera::wire {

// Of a handle, at its beginning.
inline constexpr size_t kServerIdBytes = 8;

// Of the server that is advertised under `address`, "host:port", as a handle has it: the 64-bit FNV-1a hash,
// little-endian. Zeros where `address` is empty: of a server that is not advertised.
inline std::string ServerId(absl::string_view address) {
  if (address.empty()) return std::string(kServerIdBytes, '\0');
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : address) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  std::string id;
  for (size_t i = 0; i < kServerIdBytes; ++i) id.push_back(static_cast<char>(hash >> (8 * i)));
  return id;
}

}  // namespace tessera::wire

#endif  // TESSERA_PROTO_WIRE_SERVER_ID_H_
