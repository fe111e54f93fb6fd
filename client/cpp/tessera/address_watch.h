// Keeps a set of servers in step with the addresses that a name has.
#ifndef TESSERA_CLIENT_CPP_TESSERA_ADDRESS_WATCH_H_
#define TESSERA_CLIENT_CPP_TESSERA_ADDRESS_WATCH_H_

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/tessera/endpoint.h"
#include "client/cpp/tessera/server_set.h"

namespace tessera {

// The addresses of "host:port", of the family that the system prefers, as endpoints whose authority is the name.
// UNAVAILABLE where it has none. May block for as long as the system's resolver does.
absl::StatusOr<std::vector<Endpoint>> LookUpAddresses(const std::string& name);

// Looks on a thread of its own: at once, every kPeriod, and kShortest after a Refresh. A name that cannot be looked up
// leaves the servers as they were. Thread-safe.
class AddressWatch {
 public:
  using LookUpFn = std::function<absl::StatusOr<std::vector<Endpoint>>()>;

  // The set outlives the watch.
  AddressWatch(LookUpFn look_up, ServerSet* servers);
  // Waits for a look that is under way.
  ~AddressWatch();

  // A server does not answer: there may be others by now.
  void Refresh() ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until the name has been looked up once, at most `timeout`.
  void AwaitFirst(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  static constexpr absl::Duration kPeriod = absl::Seconds(10);
  static constexpr absl::Duration kShortest = absl::Seconds(1);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  bool Wanted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return wanted_ || stopping_; }

  const LookUpFn look_up_;
  ServerSet* const servers_;
  absl::Mutex mutex_;
  bool wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool looked_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_ADDRESS_WATCH_H_
