// The servers that a client spreads its calls over, and the choice among them.
#ifndef TESSERA_CLIENT_CPP_TESSERA_SERVER_SET_H_
#define TESSERA_CLIENT_CPP_TESSERA_SERVER_SET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cpp/tessera/connection_pool.h"
#include "client/cpp/tessera/endpoint.h"
#include "client/cpp/tessera/options.h"
#include "client/cpp/tessera/timer_queue.h"

namespace tessera {

// A call goes to the server with the fewest bytes outstanding, all of its stripes to the same one. A server that has
// said UNAVAILABLE, or cannot be reached, is avoided for a while that grows from failure to failure; then one call
// tries it, and only when that is answered do the others come back. Thread-safe.
class ServerSet {
 public:
  struct Server;

  // `several`: calls may be tried again elsewhere, so that gRPC must not hold them to one server. `on_failure` runs,
  // with no lock held, when a server begins to be avoided. The timers outlive the set. `now` tells the time, to a test
  // another than the real one.
  ServerSet(const ClientOptions& options, bool several, TimerQueue* timers, std::function<void()> on_failure,
            std::function<absl::Time()> now = absl::Now);
  // REQUIRES: every call has been returned.
  ~ServerSet();

  bool several() const { return several_; }

  // From now on these are the servers. One that is none of them any more gets no new calls, and goes at a later Update,
  // or with the set, when its last call has been returned. Waits for the streams of those that go: not on a thread that
  // must not block.
  void Update(const std::vector<Endpoint>& endpoints) ABSL_LOCKS_EXCLUDED(mutex_);

  // The server for a call that is about to be made, `except` only where there is no other to be had. Null where no
  // server is known. Every one is to be returned.
  Server* Pick(const Server* except = nullptr) ABSL_LOCKS_EXCLUDED(mutex_);
  // `end`: what the call ended with there.
  void Return(Server* server, const absl::Status& end) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether a server other than `server` could take a call at once.
  bool HasAnother(const Server* server) const ABSL_LOCKS_EXCLUDED(mutex_);

  static ConnectionPool* PoolOf(Server* server);

  static constexpr absl::Duration kFirstAvoidance = absl::Milliseconds(100);
  static constexpr absl::Duration kLongestAvoidance = absl::Seconds(5);

 private:
  static bool Avoided(const Server& server, absl::Time now);

  const ClientOptions options_;
  const bool several_;
  TimerQueue* const timers_;
  const std::function<void()> on_failure_;
  const std::function<absl::Time()> now_;

  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<Server>> servers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Server>> leaving_ ABSL_GUARDED_BY(mutex_);
  size_t turn_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_SERVER_SET_H_
