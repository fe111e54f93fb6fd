// RegionService on gRPC's callback API.
#ifndef TESSERA_SERVER_RPC_REGION_SERVICE_H_
#define TESSERA_SERVER_RPC_REGION_SERVICE_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/region/region_host.h"
#include "server/rpc/attend_environment.h"
#include "server/rpc/region_stream.h"
#include "server/rpc/stream_registry.h"
#include "tessera/v1/region.grpc.pb.h"

namespace tessera {

// Translates only. Destroy it when the gRPC server has stopped. Messages are raw: gRPC would answer one that does not
// parse with UNIMPLEMENTED.
class RegionService final
    : public v1::RegionService::WithRawCallbackMethod_AttendInRegions<v1::RegionService::Service> {
 public:
  // Both outlive the service.
  RegionService(const AttendEnvironment& environment, RegionHost* host) : environment_(environment), host_(host) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* AttendInRegions(
      grpc::CallbackServerContext* context) override {
    return RegionStream::Start(environment_, host_, &registry_, context);
  }

  // Ends every stream as soon as everything that it was asked for has been answered.
  void CloseStreams() { registry_.CloseAll(); }
  // Ends every call of every stream, and those that come later.
  void EndStreamCalls(const absl::Status& status) { registry_.EndAllCalls(status); }

 private:
  const AttendEnvironment& environment_;
  RegionHost* const host_;
  StreamRegistry registry_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_REGION_SERVICE_H_
