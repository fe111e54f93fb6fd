// Which of the connections that were accepted are open still, without a word from whoever owns them now.
#ifndef TESSERA_SERVER_RPC_OPEN_CONNECTIONS_H_
#define TESSERA_SERVER_RPC_OPEN_CONNECTIONS_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace tessera {

// gRPC does not tell when it closes a socket that it was given. But a descriptor that is closed says so, and one that
// is used anew is another socket, with another cookie. So this keeps numbers and cookies, holds nothing open, and asks
// the system where it matters: when the bound seems to be reached. Not thread-safe.
class OpenConnections {
 public:
  // `most` is at least 1.
  explicit OpenConnections(size_t most) : most_(most) {}

  // Whether one more may be open, at `now`. Those that have been closed are noticed here, within kSweepPeriod: asking
  // about all of them for each connection of a flood would cost more than accepting it.
  bool HasRoom(absl::Time now);
  static constexpr absl::Duration kSweepPeriod = absl::Milliseconds(5);

  // `fd` is a socket that is open and is given away. REQUIRES: HasRoom.
  void Add(int fd);

  // Those not known to be closed.
  size_t size() const { return cookies_.size(); }

 private:
  const size_t most_;
  absl::flat_hash_map<int, uint64_t> cookies_;
  absl::Time swept_ = absl::InfinitePast();
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_OPEN_CONNECTIONS_H_
