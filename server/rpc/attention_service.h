// AttentionService on gRPC's callback API, with raw messages: tensors are never parsed into strings.
#ifndef TESSERA_SERVER_RPC_ATTENTION_SERVICE_H_
#define TESSERA_SERVER_RPC_ATTENTION_SERVICE_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/attend_environment.h"
#include "server/rpc/attend_stream.h"
#include "server/rpc/attend_unary.h"
#include "server/rpc/stream_registry.h"
#include "server/rpc/stripe_table.h"
#include "tessera/v1/attention.grpc.pb.h"

namespace tessera {

// Translates only. Destroy it when the gRPC server and the environment's deadline watch have stopped.
class AttentionService final
    : public v1::AttentionService::WithRawCallbackMethod_Attend<
          v1::AttentionService::WithRawCallbackMethod_AttendStream<v1::AttentionService::Service>> {
 public:
  explicit AttentionService(const AttendEnvironment& environment) : environment_(environment), stripes_(environment_) {}

  grpc::ServerUnaryReactor* Attend(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override {
    return AttendUnary::Start(environment_, context, request, response);
  }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* AttendStream(
      grpc::CallbackServerContext* context) override {
    return tessera::AttendStream::Start(environment_, &stripes_, &registry_, context);
  }

  // Ends every stream as soon as it has no open call.
  void CloseStreams() { registry_.CloseAll(); }
  // Ends every call of every stream, those still being received included, and those that come later.
  void EndStreamCalls(const absl::Status& status) { registry_.EndAllCalls(status); }

 private:
  const AttendEnvironment environment_;
  StripeTable stripes_;
  StreamRegistry registry_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_ATTENTION_SERVICE_H_
