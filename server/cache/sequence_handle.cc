#include "server/cache/sequence_handle.h"

#include <sys/random.h>

#include <cerrno>

#include "absl/base/internal/raw_logging.h"

namespace tessera {
namespace {

// Little-endian, so that a handle reads the same everywhere.
void Append(uint64_t value, int bytes, std::string& to) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t Read(absl::string_view from, size_t offset, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(static_cast<uint8_t>(from[offset + i])) << (8 * i);
  return value;
}

}  // namespace

std::string SequenceHandle::Encode() const {
  std::string bytes;
  bytes.reserve(kBytes);
  Append(epoch, 8, bytes);
  Append(slot, 4, bytes);
  Append(generation, 4, bytes);
  Append(secret, 8, bytes);
  return bytes;
}

std::optional<SequenceHandle> SequenceHandle::Decode(absl::string_view bytes) {
  if (bytes.size() != kBytes) return std::nullopt;
  return SequenceHandle{.epoch = Read(bytes, 0, 8),
                        .slot = static_cast<uint32_t>(Read(bytes, 8, 4)),
                        .generation = static_cast<uint32_t>(Read(bytes, 12, 4)),
                        .secret = Read(bytes, 16, 8)};
}

absl::Status NoSuchSequence() { return absl::NotFoundError("no such sequence"); }

uint64_t SecretSource::Draw() {
  if (left_ == 0) {
    ssize_t got;
    do {
      got = getrandom(drawn_.data(), sizeof(drawn_), 0);
    } while (got < 0 && errno == EINTR);
    ABSL_RAW_CHECK(got == sizeof(drawn_), "the system has no random numbers");
    left_ = drawn_.size();
  }
  return drawn_[--left_];
}

}  // namespace tessera
