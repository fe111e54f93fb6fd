// One unary Extend call.
#ifndef TESSERA_SERVER_RPC_EXTEND_UNARY_H_
#define TESSERA_SERVER_RPC_EXTEND_UNARY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/request/extend_job.h"
#include "server/rpc/sequence_environment.h"
#include "server/rpc/unary_job_call.h"

namespace tessera {

class ExtendUnary final : public UnaryJobCall<ExtendJob> {
 public:
  // `request` and `response` are the RPC's own and live until its end.
  static grpc::ServerUnaryReactor* Start(const SequenceEnvironment& environment, grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request, grpc::ByteBuffer* response);

 private:
  ExtendUnary(const SequenceEnvironment& environment, grpc::CallbackServerContext* context, grpc::ByteBuffer* response);

  absl::StatusOr<Admitted> Admit(const grpc::ByteBuffer& request, std::string tenant, absl::Time deadline,
                                 ExtendJob::DoneFn done) override;
  void Queue(const JobPtr& job) override;
  void Forget(const ExtendJob& job) override;
  grpc::ByteBuffer Encode(const JobPtr& job) override;

  const SequenceEnvironment& environment_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_EXTEND_UNARY_H_
