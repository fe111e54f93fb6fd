// How many RPCs are open, so that a server that stops can tell when nobody wants anything of it any more.
#ifndef TESSERA_SERVER_RPC_OPEN_RPCS_H_
#define TESSERA_SERVER_RPC_OPEN_RPCS_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace tessera {

// Thread-safe.
class OpenRpcs {
 public:
  void Started() {
    ++open_;
    ++started_;
  }
  void Ended() { --open_; }

  // Waits, in real time, until for `quiet` no RPC has been open; false where that has not come by `deadline`.
  bool AwaitQuiet(absl::Duration quiet, absl::Time deadline) const;

 private:
  std::atomic<int64_t> open_ = 0;
  std::atomic<int64_t> started_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_OPEN_RPCS_H_
