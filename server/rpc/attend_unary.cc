#include "server/rpc/attend_unary.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "proto/wire/attend_encode.h"
#include "server/rpc/attend_header.h"
#include "server/rpc/caller.h"
#include "server/rpc/make_job.h"
#include "server/rpc/status.h"

namespace tessera {
namespace {

absl::Status CheckPayload(const char* field, size_t received, int64_t expected) {
  if (received == static_cast<size_t>(expected)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", received, " bytes, the header's shape needs ", expected));
}

absl::Status CheckPayloads(const wire::DecodedAttendRequest& request, const AttendShape& shape) {
  absl::Status status = CheckPayload("q", request.q.size(), shape.q_bytes);
  if (status.ok()) status = CheckPayload("k", request.k.size(), shape.kv_bytes);
  if (status.ok()) status = CheckPayload("v", request.v.size(), shape.kv_bytes);
  return status;
}

absl::Status NoMessage() { return absl::InvalidArgumentError("the call ended without a message"); }

grpc::ByteBuffer EncodeAnswer(const std::shared_ptr<AttendJob>& job) {
  const AttendShape& shape = job->shape();
  v1::AttendResponse message;
  *message.mutable_result() = ToAttendResult(shape, job->times());
  const auto slices = [&job](int64_t offset, int64_t bytes) {
    std::vector<grpc::Slice> part;
    if (bytes > 0) {
      part.push_back(
          wire::AliasSlice(absl::MakeConstSpan(job->output().data() + offset, static_cast<size_t>(bytes)), job));
    }
    return part;
  };
  return wire::EncodeAttendResponse(message, slices(0, shape.q_bytes), slices(shape.q_bytes, shape.lse_bytes));
}

}  // namespace

grpc::ServerUnaryReactor* AttendUnary::Start(const AttendEnvironment& environment, grpc::CallbackServerContext* context,
                                             const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  auto* call = new AttendUnary(environment, context, response);
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
  const std::shared_ptr<AttendJob> job = call->job_;
  const absl::Time queue_time = environment.clock->Now();
  job->SetArrival(call->started_, queue_time);
  environment.observer->OnStage(Stage::kReceive, queue_time - call->started_);
  const absl::Status queued = environment.scheduler->Enqueue(job);
  if (!queued.ok()) job->Finish(WithReason(queued, RejectReason::kQueue));
  return call;
}

AttendUnary::AttendUnary(const AttendEnvironment& environment, grpc::CallbackServerContext* context,
                         grpc::ByteBuffer* response)
    : environment_(environment),
      context_(context),
      response_(response),
      started_(environment.clock->Now()),
      send_watch_(std::make_shared<SendWatch>(environment, context)) {
  environment_.observer->OnRpcStarted(RpcMethod::kAttend);
}

absl::Status AttendUnary::Receive(const grpc::ByteBuffer& request) {
  absl::StatusOr<std::string> tenant = TenantOf(context_->client_metadata(), environment_.tokens);
  if (!tenant.ok()) return tenant.status();
  const auto message_bytes = static_cast<int64_t>(request.Length());
  const absl::StatusOr<ByteBudget::Charge> message_charge =
      environment_.admission->AdmitMessage(*tenant, message_bytes);
  if (!message_charge.ok()) return message_charge.status();
  const absl::StatusOr<wire::DecodedAttendRequest> message = wire::DecodeAttendRequest(request);
  if (!message.ok()) return message.status();
  if (!message->header.has_value()) return absl::InvalidArgumentError("header: missing");
  absl::StatusOr<AttendSpec> spec = ToAttendSpec(*message->header, environment_.limits.request);
  if (!spec.ok()) return spec.status();
  if (absl::Status fits = CheckUnaryAnswer(spec->shape); !fits.ok()) return fits;
  if (absl::Status sizes = CheckPayloads(*message, spec->shape); !sizes.ok()) return sizes;
  const absl::Time deadline = DeadlineOf(*context_, *environment_.clock);
  if (deadline <= environment_.clock->Now()) {
    return absl::DeadlineExceededError("the deadline passed before the call was received");
  }
  absl::StatusOr<Admission::Grant> grant = environment_.admission->AdmitCall(*tenant, spec->shape, message_bytes);
  if (!grant.ok()) return grant.status();

  std::byte* const input = grant->input.data();
  message->q.CopyTo(input);
  message->k.CopyTo(input + spec->shape.q_bytes);
  message->v.CopyTo(input + spec->shape.q_bytes + spec->shape.kv_bytes);
  environment_.observer->OnPayloadCopied(spec->shape.input_bytes());

  ticket_ = std::move(grant->ticket);
  job_ = MakeAttendJob(*std::move(spec), *std::move(tenant), deadline, *std::move(grant),
                       [this](const absl::Status& status, Job::State where) { Answer(status, where); });
  return absl::OkStatus();
}

void AttendUnary::OnCancel() {
  if (job_ == nullptr) return;
  const absl::Status reason = send_watch_->Reason();
  if (job_->Finish(reason)) {
    environment_.scheduler->Forget(*job_);
  } else if (code_ == absl::StatusCode::kOk) {
    CountEnding(reason, Station::kSend, environment_.observer);
  }
}

void AttendUnary::OnDone() {
  if (no_message_) {
    const absl::Status ending = context_->IsCancelled() ? send_watch_->Reason() : NoMessage();
    code_ = ending.code();
    CountEnding(ending, Station::kReceive, environment_.observer);
  }
  send_watch_->Close();
  const absl::Time now = environment_.clock->Now();
  if (job_ != nullptr && code_ == absl::StatusCode::kOk) {
    environment_.observer->OnStage(Stage::kSend, now - job_->times().finished);
  }
  environment_.observer->OnRpcHandled(RpcMethod::kAttend, code_, now - started_);
  delete this;
}

void AttendUnary::FinishWithoutMessage() {
  no_message_ = true;
  Finish(ToGrpcStatus(NoMessage()));
}

void AttendUnary::Answer(const absl::Status& status, Job::State where) {
  if (status.ok()) {
    environment_.observer->OnStage(Stage::kQueue, job_->times().launched - job_->times().queued);
    job_->input().Release();
    grpc::ByteBuffer answer = EncodeAnswer(job_);
    response_->Swap(&answer);
    send_watch_->Sending();
  }
  FinishWith(status, StationOf(where));
}

void AttendUnary::FinishWith(const absl::Status& status, Station where) {
  code_ = status.code();
  CountEnding(status, where, environment_.observer);
  if (!status.ok()) {
    const absl::Duration retry_after = RetryAfter(status, environment_.scheduler->RetryAfter());
    if (retry_after > absl::ZeroDuration()) AddRetryPushback(retry_after, context_);
  }
  Finish(ToGrpcStatus(status));
}

}  // namespace tessera
