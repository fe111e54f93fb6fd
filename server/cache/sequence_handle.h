// What a caller holds of a sequence: a name that cannot be guessed and that ends with the sequence.
#ifndef TESSERA_SERVER_CACHE_SEQUENCE_HANDLE_H_
#define TESSERA_SERVER_CACHE_SEQUENCE_HANDLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tessera {

// Two handles of one server are never equal, nor are those of two servers, or of one before and after a restart. To a
// caller it is kBytes opaque bytes.
struct SequenceHandle {
  static constexpr size_t kBytes = 24;

  uint64_t epoch = 0;       // of the cache that gave it out: drawn anew when the process starts
  uint32_t slot = 0;        // of the sequence in the cache
  uint32_t generation = 0;  // of the sequence in its slot
  uint64_t secret = 0;      // of the sequence: what makes the handle hard to guess

  std::string Encode() const;
  // Nothing where `bytes` is not kBytes long.
  static std::optional<SequenceHandle> Decode(absl::string_view bytes);

  friend bool operator==(const SequenceHandle&, const SequenceHandle&) = default;
};

// What a caller hears of a handle that is unknown, another tenant's, released, expired, or not a handle at all:
// NOT_FOUND, always the same.
absl::Status NoSuchSequence();

// Numbers from the operating system's generator, fetched many at a time. Not thread-safe.
class SecretSource {
 public:
  uint64_t Draw();

 private:
  // As much as getrandom gives whole or not at all.
  std::array<uint64_t, 32> drawn_;
  size_t left_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CACHE_SEQUENCE_HANDLE_H_
