// The tensors of one attempt, laid end to end, as slices for gRPC.
//
// Above kCopyBelowBytes the slices alias the caller's memory, and the payload knows when gRPC has let go of the last of
// them. Below, they are copies: a few microseconds buy a call that may end at once, whatever gRPC still holds.
#ifndef TESSERA_CLIENT_CPP_TESSERA_REQUEST_PAYLOAD_H_
#define TESSERA_CLIENT_CPP_TESSERA_REQUEST_PAYLOAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "client/cpp/tessera/timer_queue.h"
#include "grpcpp/support/slice.h"

namespace tessera {

class RequestPayload {
 public:
  static constexpr int64_t kCopyBelowBytes = int64_t{64} << 10;

  using Tensors = absl::InlinedVector<absl::Span<const std::byte>, 3>;

  explicit RequestPayload(Tensors tensors);

  // Of all tensors together.
  int64_t size() const { return size_; }
  // True where slices refer to the caller's memory.
  bool aliases() const { return size_ >= kCopyBelowBytes; }

  // Slices of the part [offset, offset + length) of the tensors laid end to end. REQUIRES: it lies within size(), and
  // Release has not been called. Thread-safe beside itself.
  std::vector<grpc::Slice> Slices(int64_t offset, int64_t length) const;

  // Runs `released` once gRPC holds no slice that aliases the caller's memory: at once, in this call, where it holds
  // none; otherwise as a task of `timers`, since slices are destroyed deep inside gRPC. REQUIRES: called once.
  void Release(std::function<void()> released, TimerQueue* timers);

 private:
  // Passed twice: by Release, and by the last aliasing slice. Whoever comes second knows that both have happened.
  struct Gate {
    // True for the second to pass.
    bool Pass() { return passed.exchange(true, std::memory_order_acq_rel); }

    std::atomic<bool> passed{false};
    std::function<void()> released;  // written before Release passes
    TimerQueue* timers = nullptr;
  };

  // Every aliasing slice refers to it, and so does the payload until Release.
  struct Hold {
    explicit Hold(std::shared_ptr<Gate> hold_gate) : gate(std::move(hold_gate)) {}
    ~Hold() {
      if (gate->Pass()) gate->timers->Post(std::move(gate->released));
    }
    const std::shared_ptr<Gate> gate;
  };

  const Tensors tensors_;
  const int64_t size_;
  std::shared_ptr<Hold> hold_;  // null where slices are copies, and after Release
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_REQUEST_PAYLOAD_H_
