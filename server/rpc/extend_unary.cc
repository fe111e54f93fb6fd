#include "server/rpc/extend_unary.h"

#include <string>
#include <utility>

#include "proto/wire/attend_decode.h"
#include "server/rpc/caller.h"
#include "server/rpc/extend_header.h"
#include "server/rpc/extend_message.h"
#include "server/rpc/queue_extend.h"
#include "server/rpc/status.h"

namespace tessera {
namespace {

absl::Status NoMessage() { return absl::InvalidArgumentError("the call ended without a message"); }

}  // namespace

grpc::ServerUnaryReactor* ExtendUnary::Start(const SequenceEnvironment& environment,
                                             grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                             grpc::ByteBuffer* response) {
  auto* call = new ExtendUnary(environment, context, response);
  if (!request->Valid()) {
    call->FinishWithoutMessage();
    return call;
  }
  const absl::Status received = call->Receive(*request);
  // The request is gRPC's until the RPC ends, but its slices are not needed any more. The object behind the reference
  // is not const; only the generated signature is.
  const_cast<grpc::ByteBuffer*>(request)->Clear();
  if (!received.ok()) {
    call->FinishWith(received, Station::kReceive);
    return call;
  }
  const ExtendJobPtr job = call->job_;
  const absl::Time queue_time = environment.attend.clock->Now();
  job->SetArrival(call->started_, queue_time);
  environment.attend.observer->OnStage(Stage::kReceive, queue_time - call->started_);
  QueueInTurn(environment, job);
  return call;
}

ExtendUnary::ExtendUnary(const SequenceEnvironment& environment, grpc::CallbackServerContext* context,
                         grpc::ByteBuffer* response)
    : environment_(environment),
      context_(context),
      response_(response),
      started_(environment.attend.clock->Now()),
      send_watch_(std::make_shared<SendWatch>(environment.attend, context)) {
  environment_.attend.observer->OnRpcStarted(RpcMethod::kExtend);
}

absl::Status ExtendUnary::Receive(const grpc::ByteBuffer& request) {
  const AttendEnvironment& attend = environment_.attend;
  absl::StatusOr<std::string> tenant = TenantOf(context_->client_metadata(), attend.tokens);
  if (!tenant.ok()) return tenant.status();
  const auto message_bytes = static_cast<int64_t>(request.Length());
  const absl::StatusOr<ByteBudget::Charge> message_charge = attend.admission->AdmitMessage(*tenant, message_bytes);
  if (!message_charge.ok()) return message_charge.status();
  const absl::StatusOr<wire::DecodedExtendRequest> message = wire::DecodeExtendRequest(request);
  if (!message.ok()) return message.status();
  absl::StatusOr<AdmittedExtend> admitted =
      AdmitExtend(environment_, *std::move(tenant), *message, message_bytes, DeadlineOf(*context_, *attend.clock),
                  [this](const absl::Status& status, Job::State where) { Answer(status, where); });
  if (!admitted.ok()) return admitted.status();
  ticket_ = std::move(admitted->ticket);
  job_ = std::move(admitted->job);
  return absl::OkStatus();
}

void ExtendUnary::OnCancel() {
  if (job_ == nullptr) return;
  const absl::Status reason = send_watch_->Reason();
  if (job_->Finish(reason)) {
    Forget(environment_, *job_);
  } else if (code_ == absl::StatusCode::kOk) {
    CountEnding(reason, Station::kSend, environment_.attend.observer);
  }
}

void ExtendUnary::OnDone() {
  if (no_message_) {
    const absl::Status ending = context_->IsCancelled() ? send_watch_->Reason() : NoMessage();
    code_ = ending.code();
    CountEnding(ending, Station::kReceive, environment_.attend.observer);
  }
  send_watch_->Close();
  const absl::Time now = environment_.attend.clock->Now();
  if (job_ != nullptr && code_ == absl::StatusCode::kOk) {
    environment_.attend.observer->OnStage(Stage::kSend, now - job_->times().finished);
  }
  environment_.attend.observer->OnRpcHandled(RpcMethod::kExtend, code_, now - started_);
  delete this;
}

void ExtendUnary::FinishWithoutMessage() {
  no_message_ = true;
  Finish(ToGrpcStatus(NoMessage()));
}

void ExtendUnary::Answer(const absl::Status& status, Job::State where) {
  if (status.ok()) {
    environment_.attend.observer->OnStage(Stage::kQueue, job_->times().launched - job_->times().queued);
    job_->input().Release();
    grpc::ByteBuffer answer = EncodeExtendAnswer(job_);
    response_->Swap(&answer);
    send_watch_->Sending();
  }
  FinishWith(status, StationOf(where));
}

void ExtendUnary::FinishWith(const absl::Status& status, Station where) {
  code_ = status.code();
  CountEnding(status, where, environment_.attend.observer);
  if (!status.ok()) {
    const absl::Duration retry_after = RetryAfter(status, environment_.attend.scheduler->RetryAfter());
    if (retry_after > absl::ZeroDuration()) AddRetryPushback(retry_after, context_);
  }
  Finish(ToGrpcStatus(status));
}

}  // namespace tessera
