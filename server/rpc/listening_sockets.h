// The sockets that connections come in by.
#ifndef TESSERA_SERVER_RPC_LISTENING_SOCKETS_H_
#define TESSERA_SERVER_RPC_LISTENING_SOCKETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera {

// One socket for each address that a name stands for, all on one port. Closed, and a Unix socket's file removed, by the
// destructor. Movable, not copyable.
class ListeningSockets {
 public:
  // `address` is "host:port", where an IPv6 host stands in brackets and port 0 takes a free one, "unix:path", or
  // "unix-abstract:name". A wildcard host (none, 0.0.0.0 or [::]) takes IPv4 and IPv6 alike, where the system has both.
  // INVALID_ARGUMENT for what is none of these, UNAVAILABLE where it cannot be had.
  static absl::StatusOr<ListeningSockets> Open(const std::string& address);

  ListeningSockets(ListeningSockets&& other) noexcept;
  ListeningSockets& operator=(ListeningSockets&& other) noexcept;
  ~ListeningSockets();

  // Non-blocking, closed on exec. What they accept has TCP_NODELAY and TCP_USER_TIMEOUT set, as gRPC sets them.
  const std::vector<int>& fds() const { return fds_; }
  // 0 for a Unix socket.
  int port() const { return port_; }

 private:
  ListeningSockets() = default;

  std::vector<int> fds_;
  int port_ = 0;
  std::string path_;  // of a Unix socket's file
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_LISTENING_SOCKETS_H_
