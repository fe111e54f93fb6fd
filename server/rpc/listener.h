// Accepts connections and hands them to gRPC.
//
// gRPC accepts by itself, too, but its loop (of 1.51) ends for good when the process is out of file descriptors, and
// nothing bounds its connections. This one goes on, and keeps to its bound.
#ifndef TESSERA_SERVER_RPC_LISTENER_H_
#define TESSERA_SERVER_RPC_LISTENER_H_

#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server_builder.h"
#include "server/rpc/listening_sockets.h"
#include "server/rpc/open_connections.h"
#include "server/rpc/rpc_observer.h"

namespace tessera {

// One thread, asleep until a connection comes. Connections beyond the bound are closed at once. When the process has no
// descriptor left, connections are closed at once, too, by means of one that is kept for that.
class Listener {
 public:
  // The observer outlives the listener.
  Listener(ListeningSockets sockets, size_t max_connections, RpcObserver* observer);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() { Stop(); }

  int port() const { return sockets_.port(); }

  // REQUIRES: the server that `acceptor` belongs to has started, and Stop is called before it is shut down. Not called
  // before.
  void Start(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor);

  // No connection is accepted any more, and whoever tries is refused by the system: the sockets are closed. What was
  // accepted stays. Called by one thread at a time, any number of times.
  void Stop();

 private:
  // How long no connection is accepted after an error that may last.
  static constexpr absl::Duration kPause = absl::Milliseconds(50);
  // Connections of one socket before the others have their turn.
  static constexpr int kBurst = 64;

  void Run();
  // Takes what waits at `socket`. False where nothing can be accepted just now.
  bool AcceptAll(int socket);
  // With no descriptor left: closes the connection that waits at `socket`. False where even that cannot be done.
  bool Shed(int socket);
  void Take(int socket, int fd);

  ListeningSockets sockets_;
  RpcObserver* const observer_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  OpenConnections connections_;
  int spare_ = -1;  // a descriptor to give up for Shed; -1 while there is none
  int wake_ = -1;   // an eventfd; readable: end
  std::thread thread_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_LISTENER_H_
