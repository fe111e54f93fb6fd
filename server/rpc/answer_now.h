// Unary calls without payload that are answered where they arrive.
#ifndef TESSERA_SERVER_RPC_ANSWER_NOW_H_
#define TESSERA_SERVER_RPC_ANSWER_NOW_H_

#include <cstddef>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/attend_environment.h"
#include "server/rpc/status.h"

namespace tessera {

// These messages name things and carry no tensors; parsed, one of empty fields takes some 60 times its size.
inline constexpr size_t kMostAnswerNowBytes = 1 << 20;

// Answers a unary call on the spot by `answer`, from a Request to a StatusOr of the response, and counts it.
// INVALID_ARGUMENT for a message of more than kMostAnswerNowBytes, before it is parsed. Messages are raw: gRPC would
// answer one that does not parse with UNIMPLEMENTED.
template <typename Request, typename AnswerFn>
grpc::ServerUnaryReactor* AnswerNow(RpcMethod method, const AttendEnvironment& environment,
                                    grpc::CallbackServerContext* context, const grpc::ByteBuffer& request,
                                    grpc::ByteBuffer* response, const AnswerFn& answer) {
  const absl::Time started = environment.clock->Now();
  environment.observer->OnRpcStarted(method);
  Request message;
  grpc::ByteBuffer bytes(request);
  absl::Status status;
  if (request.Length() > kMostAnswerNowBytes) {
    status = absl::InvalidArgumentError(
        absl::StrCat("the message has ", request.Length(), " bytes, it may have ", kMostAnswerNowBytes));
  } else if (!grpc::SerializationTraits<Request>::Deserialize(&bytes, &message).ok()) {
    status = absl::InvalidArgumentError("the message does not parse");
  } else if (const auto answered = answer(message); answered.ok()) {
    bool owned;
    const grpc::Status serialized =
        grpc::SerializationTraits<std::decay_t<decltype(*answered)>>::Serialize(*answered, response, &owned);
    if (!serialized.ok()) status = absl::InternalError("the answer cannot be serialized");
  } else {
    status = answered.status();
  }
  CountEnding(status, Station::kReceive, environment.observer);
  const absl::Duration retry_after =
      status.ok() ? absl::ZeroDuration() : RetryAfter(status, environment.scheduler->RetryAfter());
  if (retry_after > absl::ZeroDuration()) AddRetryPushback(retry_after, context);
  AddRedirect(status, context);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  environment.observer->OnRpcHandled(method, status.code(), environment.clock->Now() - started);
  return reactor;
}

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_ANSWER_NOW_H_
