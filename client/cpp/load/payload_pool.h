// Random tensors, generated once and sent again and again, so that a run measures the server and not the generator.
#ifndef TESSERA_CLIENT_CPP_LOAD_PAYLOAD_POOL_H_
#define TESSERA_CLIENT_CPP_LOAD_PAYLOAD_POOL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "client/cpp/load/call_shape.h"

namespace tessera::load {

// The tensors of one call, packed [tokens, heads, head_dim]. They lie end to end in one block, as on the wire.
struct Payload {
  absl::Span<const std::byte> q;
  absl::Span<const std::byte> k;
  absl::Span<const std::byte> v;

  absl::Span<const std::byte> all() const { return {q.data(), q.size() + k.size() + v.size()}; }
};

// Immutable once made, so safe to read from any thread. Payloads stay valid as long as the pool lives.
class PayloadPool {
 public:
  // `per_shape` payloads of each shape, elements drawn from a standard normal distribution: with the default scale the
  // scores are then standard normal too, as in a freshly initialised model. The same seed gives the same bytes.
  // REQUIRES: per_shape > 0.
  PayloadPool(absl::Span<const CallShape> shapes, int per_shape, uint64_t seed);

  // `ordinal` may be any number; it wraps round.
  Payload Get(size_t shape, uint64_t ordinal) const;

  int64_t bytes() const;  // memory held

 private:
  struct Entry {
    size_t q_bytes = 0;
    size_t kv_bytes = 0;
    std::vector<std::vector<std::byte>> blocks;
  };

  std::vector<Entry> entries_;
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_PAYLOAD_POOL_H_
