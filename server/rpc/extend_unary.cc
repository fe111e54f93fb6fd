#include "server/rpc/extend_unary.h"

#include <cstdint>
#include <utility>

#include "proto/wire/attend_decode.h"
#include "server/rpc/extend_message.h"
#include "server/rpc/queue_extend.h"

namespace tessera {

grpc::ServerUnaryReactor* ExtendUnary::Start(const SequenceEnvironment& environment,
                                             grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                             grpc::ByteBuffer* response) {
  auto* call = new ExtendUnary(environment, context, response);
  call->Begin(request);
  return call;
}

ExtendUnary::ExtendUnary(const SequenceEnvironment& environment, grpc::CallbackServerContext* context,
                         grpc::ByteBuffer* response)
    : UnaryJobCall(environment.attend, RpcMethod::kExtend, context, response), environment_(environment) {}

absl::StatusOr<ExtendUnary::Admitted> ExtendUnary::Admit(const grpc::ByteBuffer& request, std::string tenant,
                                                         absl::Time deadline, ExtendJob::DoneFn done) {
  const absl::StatusOr<wire::DecodedExtendRequest> message = wire::DecodeExtendRequest(request);
  if (!message.ok()) return message.status();
  absl::StatusOr<AdmittedExtend> admitted = AdmitExtend(
      environment_, std::move(tenant), *message, static_cast<int64_t>(request.Length()), deadline, std::move(done));
  if (!admitted.ok()) return admitted.status();
  return Admitted{std::move(admitted->ticket), std::move(admitted->job)};
}

void ExtendUnary::Queue(const JobPtr& job) { QueueInTurn(environment_, job); }

void ExtendUnary::Forget(const ExtendJob& job) { tessera::Forget(environment_, job); }

grpc::ByteBuffer ExtendUnary::Encode(const JobPtr& job) { return EncodeExtendAnswer(job); }

}  // namespace tessera
