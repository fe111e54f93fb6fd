// grpc.health.v1 on a port of its own, in plain text.
#ifndef TESSERA_SERVER_RPC_HEALTH_PORT_H_
#define TESSERA_SERVER_RPC_HEALTH_PORT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/server.h"
#include "server/rpc/listener.h"
#include "server/rpc/rpc_observer.h"

namespace tessera {

// For probes that can neither do TLS nor show a token, such as Kubernetes'. There is no other service on it, no more
// than kMaxConnections connections, and none that has been without a call for kMaxIdle: what is left open keeps probes
// waiting no longer. A peer that opens connections anew all the time can keep them waiting for good, so only probes
// should reach the port.
class HealthPort {
 public:
  static constexpr size_t kMaxConnections = 64;
  static constexpr absl::Duration kMaxIdle = absl::Seconds(5);

  // Serves at once; services are unknown until they are set. UNAVAILABLE where the port cannot be had. The observer, of
  // connections that are refused, outlives this. REQUIRES: gRPC's default health service is on.
  static absl::StatusOr<std::unique_ptr<HealthPort>> Open(const std::string& address, RpcObserver* observer,
                                                          absl::Duration max_idle = kMaxIdle);
  HealthPort(const HealthPort&) = delete;
  HealthPort& operator=(const HealthPort&) = delete;
  ~HealthPort();

  int port() const { return listener_.port(); }
  grpc::HealthCheckServiceInterface* service() { return server_->GetHealthCheckService(); }

 private:
  HealthPort(ListeningSockets sockets, RpcObserver* observer);

  Listener listener_;
  grpc::CallbackGenericService nothing_else_;  // says UNIMPLEMENTED
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_HEALTH_PORT_H_
