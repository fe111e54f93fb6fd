#include "server/rpc/sequence_service.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/rpc/answer_now.h"
#include "server/rpc/caller.h"
#include "server/rpc/extend_stream.h"
#include "server/rpc/extend_unary.h"
#include "server/rpc/sequence_calls.h"

namespace tessera {
namespace {

// Answers by `call`, one of sequence_calls.h, for the tenant that calls.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* AnswerTenant(RpcMethod method, const SequenceEnvironment& environment,
                                       grpc::CallbackServerContext* context, const grpc::ByteBuffer& request,
                                       grpc::ByteBuffer* response,
                                       absl::StatusOr<Response> (*call)(const SequenceEnvironment&, absl::string_view,
                                                                        const Request&)) {
  const auto answer = [&](const Request& message) -> absl::StatusOr<Response> {
    const absl::StatusOr<std::string> tenant = TenantOf(context->client_metadata(), environment.attend.tokens);
    return tenant.ok() ? call(environment, *tenant, message) : tenant.status();
  };
  return AnswerNow<Request>(method, environment.attend, context, request, response, answer);
}

}  // namespace

grpc::ServerUnaryReactor* SequenceService::CreateSequences(grpc::CallbackServerContext* context,
                                                           const grpc::ByteBuffer* request,
                                                           grpc::ByteBuffer* response) {
  return AnswerTenant(RpcMethod::kCreateSequences, environment_, context, *request, response,
                      &tessera::CreateSequences);
}

grpc::ServerUnaryReactor* SequenceService::Extend(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return ExtendUnary::Start(environment_, context, request, response);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* SequenceService::ExtendStream(
    grpc::CallbackServerContext* context) {
  return tessera::ExtendStream::Start(environment_, &registry_, context);
}

grpc::ServerUnaryReactor* SequenceService::ForkSequence(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return AnswerTenant(RpcMethod::kForkSequence, environment_, context, *request, response, &tessera::ForkSequence);
}

grpc::ServerUnaryReactor* SequenceService::TruncateSequence(grpc::CallbackServerContext* context,
                                                            const grpc::ByteBuffer* request,
                                                            grpc::ByteBuffer* response) {
  return AnswerTenant(RpcMethod::kTruncateSequence, environment_, context, *request, response,
                      &tessera::TruncateSequence);
}

grpc::ServerUnaryReactor* SequenceService::ReleaseSequences(grpc::CallbackServerContext* context,
                                                            const grpc::ByteBuffer* request,
                                                            grpc::ByteBuffer* response) {
  return AnswerTenant(RpcMethod::kReleaseSequences, environment_, context, *request, response,
                      &tessera::ReleaseSequences);
}

grpc::ServerUnaryReactor* SequenceService::GetSequence(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return AnswerTenant(RpcMethod::kGetSequence, environment_, context, *request, response, &tessera::GetSequence);
}

}  // namespace tessera
