// SequenceService on gRPC's callback API, with raw messages.
#ifndef TESSERA_SERVER_RPC_SEQUENCE_SERVICE_H_
#define TESSERA_SERVER_RPC_SEQUENCE_SERVICE_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/sequence_environment.h"
#include "server/rpc/stream_registry.h"
#include "tessera/v1/sequence.grpc.pb.h"

namespace tessera {

// Every method of v1::SequenceService, raw.
using RawSequenceService =
    v1::SequenceService::WithRawCallbackMethod_CreateSequences<v1::SequenceService::WithRawCallbackMethod_Extend<
        v1::SequenceService::WithRawCallbackMethod_ExtendStream<v1::SequenceService::WithRawCallbackMethod_ForkSequence<
            v1::SequenceService::WithRawCallbackMethod_TruncateSequence<
                v1::SequenceService::WithRawCallbackMethod_ReleaseSequences<
                    v1::SequenceService::WithRawCallbackMethod_GetSequence<v1::SequenceService::Service>>>>>>>;

// Translates only; calls without tensors are answered at once, on gRPC's thread. Destroy it when the gRPC server has
// stopped.
class SequenceService final : public RawSequenceService {
 public:
  // The environment outlives the service.
  explicit SequenceService(const SequenceEnvironment& environment) : environment_(environment) {}

  grpc::ServerUnaryReactor* CreateSequences(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                            grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Extend(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ExtendStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ForkSequence(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* TruncateSequence(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                             grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ReleaseSequences(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                             grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetSequence(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;

  // Ends every stream as soon as it has no open call.
  void CloseStreams() { registry_.CloseAll(); }
  // Ends every call of every stream, and those that come later.
  void EndStreamCalls(const absl::Status& status) { registry_.EndAllCalls(status); }

 private:
  const SequenceEnvironment& environment_;
  StreamRegistry registry_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_SEQUENCE_SERVICE_H_
