#include "client/cpp/tessera/channel.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"
#include "grpc/compression.h"
#include "grpc/grpc.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/channel_arguments.h"

namespace tessera {
namespace {

std::shared_ptr<grpc::ChannelCredentials> Credentials(const ClientOptions& options) {
  return options.credentials != nullptr ? options.credentials : grpc::InsecureChannelCredentials();
}

// The largest int stands for never.
int Milliseconds(absl::Duration duration) {
  return static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(duration), std::numeric_limits<int>::max()));
}

grpc::ChannelArguments CommonArguments(const Endpoint& endpoint, const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetCompressionAlgorithm(GRPC_COMPRESS_NONE);
  // Channels to one target with the same arguments would otherwise share one connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_time));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(options.keepalive_timeout));
  if (!options.server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.server_name);
  } else if (!endpoint.authority.empty()) {
    arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, endpoint.authority);
  }
  return arguments;
}

}  // namespace

std::string ServiceConfig(const RetryPolicy& policy) {
  if (policy.max_attempts <= 1) return "{}";
  constexpr int kMostAttempts = 5;  // gRPC's own cap
  // gRPC after 1.71 (grpc/grpc#41036) may lose a retry that is due at once, and with it the call, which then outlives
  // even its deadline; a millisecond's wait, less a random fifth and what has passed of it, is rounded down to that.
  constexpr absl::Duration kShortestBackoff = absl::Milliseconds(10);
  return absl::StrFormat(
      R"({"methodConfig": [{
        "name": [{"service": "tessera.v1.AttentionService", "method": "Attend"},
                 {"service": "tessera.v1.ServerService"},
                 {"service": "grpc.health.v1.Health", "method": "Check"}],
        "retryPolicy": {
          "maxAttempts": %d,
          "initialBackoff": "%.9fs",
          "maxBackoff": "%.9fs",
          "backoffMultiplier": %g,
          "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"]
        }
      }]})",
      std::min(policy.max_attempts, kMostAttempts),
      absl::ToDoubleSeconds(std::max(policy.initial_backoff, kShortestBackoff)),
      absl::ToDoubleSeconds(std::max(policy.max_backoff, kShortestBackoff)), policy.backoff_multiplier);
}

std::shared_ptr<grpc::Channel> MakeUnaryChannel(const Endpoint& endpoint, const ClientOptions& options) {
  grpc::ChannelArguments arguments = CommonArguments(endpoint, options);
  // A large call can only be retried while gRPC still has its slices. They alias the caller's memory, so that keeping
  // them costs none.
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE, std::numeric_limits<int>::max());
  arguments.SetServiceConfigJSON(ServiceConfig(options.retry));
  return grpc::CreateCustomChannel(endpoint.target, Credentials(options), arguments);
}

std::shared_ptr<grpc::Channel> MakeStreamChannel(const Endpoint& endpoint, const ClientOptions& options) {
  grpc::ChannelArguments arguments = CommonArguments(endpoint, options);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(endpoint.target, Credentials(options), arguments);
}

}  // namespace tessera
