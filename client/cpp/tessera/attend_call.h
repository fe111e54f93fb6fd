// One Attend call, as a program states it.
#ifndef TESSERA_CLIENT_CPP_TESSERA_ATTEND_CALL_H_
#define TESSERA_CLIENT_CPP_TESSERA_ATTEND_CALL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cpp/tessera/options.h"
#include "tessera/v1/attention.pb.h"

namespace tessera {

// The tensors stay the caller's: they are sent from where they lie, and the answer is written straight into o and lse.
// From the start of the call until its end, the caller neither changes nor frees q, k, v, nor touches o, lse. Where the
// call fails, o and lse hold anything.
struct AttendCall {
  v1::AttendHeader header;
  absl::Span<const std::byte> q;  // [sum(q_lengths), q_heads, head_dim] elements of header.dtype
  absl::Span<const std::byte> k;  // [sum(kv_lengths), kv_heads, head_dim]
  absl::Span<const std::byte> v;  // as k
  absl::Span<std::byte> o;        // as q
  absl::Span<std::byte> lse;      // [sum(q_lengths), q_heads] float32 where header.options.return_lse; otherwise empty
  // From the start to the end, retries included. Zero: ClientOptions::default_timeout.
  absl::Duration timeout = absl::ZeroDuration();
};

struct AttendReply {
  v1::AttendResult result;
  int attempts = 1;     // those of a unary call that gRPC made on its own are not seen
  int connections = 1;  // that the call was spread over
};

// How a call ended: the server's status, or DEADLINE_EXCEEDED, CANCELLED (by CallHandle or the client's destructor, and
// by nothing else), UNAVAILABLE (connection lost, or the server cancelled the call), INVALID_ARGUMENT (the spans do not
// fit the header) or INTERNAL (the server broke the protocol) from the library.
using AttendCallback = std::function<void(absl::StatusOr<AttendReply>)>;

// Lets a call in flight be withdrawn. Copyable, thread-safe, and of no effect on a call that has ended. Dropping it
// leaves the call alone.
class CallHandle {
 public:
  class Cancellable {
   public:
    virtual ~Cancellable() = default;
    virtual void Cancel() = 0;
  };

  CallHandle() = default;
  explicit CallHandle(std::weak_ptr<Cancellable> call) : call_(std::move(call)) {}

  // The callback still runs, with CANCELLED unless the call has ended otherwise by then.
  void Cancel() const {
    if (std::shared_ptr<Cancellable> call = call_.lock()) call->Cancel();
  }

 private:
  std::weak_ptr<Cancellable> call_;
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_ATTEND_CALL_H_
