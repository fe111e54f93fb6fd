// One unary Attend call.
#ifndef TESSERA_SERVER_RPC_ATTEND_UNARY_H_
#define TESSERA_SERVER_RPC_ATTEND_UNARY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/request/attend_job.h"
#include "server/rpc/attend_environment.h"
#include "server/rpc/unary_job_call.h"

namespace tessera {

class AttendUnary final : public UnaryJobCall<AttendJob> {
 public:
  // `request` and `response` are the RPC's own and live until its end.
  static grpc::ServerUnaryReactor* Start(const AttendEnvironment& environment, grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request, grpc::ByteBuffer* response);

 private:
  AttendUnary(const AttendEnvironment& environment, grpc::CallbackServerContext* context, grpc::ByteBuffer* response);

  absl::StatusOr<Admitted> Admit(const grpc::ByteBuffer& request, std::string tenant, absl::Time deadline,
                                 AttendJob::DoneFn done) override;
  void Queue(const JobPtr& job) override;
  void Forget(const AttendJob& job) override;
  grpc::ByteBuffer Encode(const JobPtr& job) override;

  const AttendEnvironment& environment_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_ATTEND_UNARY_H_
