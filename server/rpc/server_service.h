// ServerService: what this server is, and what its tile planner says.
#ifndef TESSERA_SERVER_RPC_SERVER_SERVICE_H_
#define TESSERA_SERVER_RPC_SERVER_SERVICE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/region/region_host.h"
#include "server/rpc/attend_environment.h"
#include "tessera/v1/sequence.pb.h"
#include "tessera/v1/server.grpc.pb.h"

namespace tessera {

struct ServerFacts {
  std::string version;
  std::string revision;
  std::string backend;  // "cpu" or "cuda"
  int64_t max_message_bytes = 0;
  int64_t max_queue_requests = 0;
  // Devices as they are now.
  std::function<std::vector<v1::DeviceInfo>()> devices;
  std::vector<v1::CacheProfile> cache_profiles = {};
  const RegionHost* regions = nullptr;  // outlives the service
};

// Answers at once, on gRPC's thread.
//
// Messages are raw: gRPC would answer one that does not parse with UNIMPLEMENTED.
class ServerService final : public v1::ServerService::WithRawCallbackMethod_GetServerInfo<
                                v1::ServerService::WithRawCallbackMethod_PlanTiles<v1::ServerService::Service>> {
 public:
  // `environment` outlives the service.
  ServerService(ServerFacts facts, const AttendEnvironment& environment);

  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* PlanTiles(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;

 private:
  v1::GetServerInfoResponse Info() const;

  const ServerFacts facts_;
  const AttendEnvironment& environment_;
  const absl::Time started_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_SERVER_SERVICE_H_
