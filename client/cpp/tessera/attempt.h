// One try of one call, by whatever transport.
#ifndef TESSERA_CLIENT_CPP_TESSERA_ATTEMPT_H_
#define TESSERA_CLIENT_CPP_TESSERA_ATTEMPT_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/tessera/attend_call.h"
#include "client/cpp/tessera/connection_pool.h"
#include "client/cpp/tessera/options.h"
#include "client/cpp/tessera/timer_queue.h"
#include "tessera/v1/attention.pb.h"

namespace tessera {

struct AttemptEnd {
  absl::Status status;
  v1::AttendResult result;     // where OK
  absl::Duration retry_after;  // the server's pushback; zero where it names none
  bool retryable = false;      // the library may try again
  int connections = 1;
};

// Thread-safe. Owned by shared_ptr; keeps itself alive from Start to its end.
class Attempt {
 public:
  // Runs once, with no lock held, when nobody reads or writes the call's tensors on the attempt's behalf any more.
  using EndFn = std::function<void(AttemptEnd)>;

  virtual ~Attempt() = default;

  // REQUIRES: called once. The end may come before this returns.
  virtual void Start() = 0;

  // Makes the attempt end soon, with `status` unless it ends otherwise first. May come before Start.
  virtual void Abort(const absl::Status& status) = 0;
};

// What attempts work with. All of it outlives them.
struct AttemptContext {
  const AttendCall* call = nullptr;
  absl::Time deadline;
  const ClientOptions* options = nullptr;
  ConnectionPool* pool = nullptr;  // the server's
  bool several_servers = false;    // UNAVAILABLE can be tried again elsewhere
  TimerQueue* timers = nullptr;
};

std::shared_ptr<Attempt> MakeUnaryAttempt(const AttemptContext& context, Attempt::EndFn on_end);
std::shared_ptr<Attempt> MakeStreamAttempt(const AttemptContext& context, Attempt::EndFn on_end);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_ATTEMPT_H_
