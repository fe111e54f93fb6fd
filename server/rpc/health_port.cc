#include "server/rpc/health_port.h"

#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/impl/server_builder_option.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace tessera {
namespace {

// Reflection and channelz are plugins of every server in the process.
class WithoutPlugins final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override { plugins->clear(); }
};

constexpr int kMaxMessageBytes = 4 << 10;
constexpr size_t kTransportBytes = size_t{16} << 20;
constexpr int kMaxConcurrentStreams = 16;
// A probe sends its first bytes at once.
constexpr int kHandshakeTimeoutMs = 2 * 1000;

}  // namespace

absl::StatusOr<std::unique_ptr<HealthPort>> HealthPort::Open(const std::string& address, RpcObserver* observer,
                                                             absl::Duration max_idle) {
  absl::StatusOr<ListeningSockets> sockets = ListeningSockets::Open(address);
  if (!sockets.ok()) return sockets.status();
  std::unique_ptr<HealthPort> health(new HealthPort(*std::move(sockets), observer));
  grpc::ServerBuilder builder;
  builder.SetOption(std::make_unique<WithoutPlugins>());
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  grpc::ResourceQuota quota("tessera_health");
  quota.Resize(kTransportBytes);
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxConcurrentStreams);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, static_cast<int>(absl::ToInt64Milliseconds(max_idle)));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
  builder.RegisterCallbackGenericService(&health->nothing_else_);
  health->server_ = builder.BuildAndStart();
  if (health->server_ == nullptr) return absl::UnavailableError("gRPC's server for health did not start");
  health->listener_.Start(std::move(acceptor));
  return health;
}

HealthPort::HealthPort(ListeningSockets sockets, RpcObserver* observer)
    : listener_(std::move(sockets), kMaxConnections, observer) {}

HealthPort::~HealthPort() {
  listener_.Stop();
  if (server_ == nullptr) return;
  server_->Shutdown(absl::ToChronoTime(absl::Now()));
  server_->Wait();
}

}  // namespace tessera
