// What a load is sent to: a Tessera server, a raw echo server, or a simulated one.
#ifndef TESSERA_CLIENT_CPP_LOAD_TARGET_H_
#define TESSERA_CLIENT_CPP_LOAD_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace tessera::load {

// One call to make. `shape` is an index into the workload's shapes, `payload` any ordinal of the payload pool.
struct Call {
  size_t shape = 0;
  uint64_t payload = 0;
};

// The server's own account of a call.
struct ServerTiming {
  absl::Duration receive;  // first message received to acceptance into the queue
  absl::Duration queue;    // acceptance to launch
  absl::Duration run;      // in the device, with the batch it was part of
  int64_t batch_requests = 0;

  bool known() const { return batch_requests > 0; }
};

// How a call ended. The spans are valid only during the callback, and empty where the target returns no tensors.
struct Answer {
  absl::Status status;
  ServerTiming timing;
  absl::Span<const std::byte> o;    // [q_tokens, q_heads, head_dim]
  absl::Span<const std::byte> lse;  // [q_tokens, q_heads] float32
};

using AnswerCallback = std::function<void(const Answer&)>;

// Thread-safe.
class Target {
 public:
  virtual ~Target() = default;

  // Starts `call` and returns. `done` runs exactly once, on any thread, possibly before Issue returns; it may call
  // Issue. An OK answer has the sizes that the call's shape asks for.
  virtual void Issue(const Call& call, AnswerCallback done) = 0;
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_TARGET_H_
