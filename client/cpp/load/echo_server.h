// A gRPC server that does nothing but move bytes: the least that any tensor service can cost.
#ifndef TESSERA_CLIENT_CPP_LOAD_ECHO_SERVER_H_
#define TESSERA_CLIENT_CPP_LOAD_ECHO_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/server.h"

namespace tessera::load {

// Serves echo_message.h's two methods over raw ByteBuffers with the callback API, in plain text.
class EchoServer {
 public:
  // Listens on `address`, such as "127.0.0.1:0"; port 0 picks a free one. UNAVAILABLE where it cannot be had.
  static absl::StatusOr<std::unique_ptr<EchoServer>> Start(const std::string& address);

  // Ends calls in flight.
  ~EchoServer();

  int port() const { return port_; }

 private:
  EchoServer();

  const std::unique_ptr<grpc::CallbackGenericService> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_ECHO_SERVER_H_
