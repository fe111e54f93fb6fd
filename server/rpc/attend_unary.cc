#include "server/rpc/attend_unary.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "proto/wire/attend_decode.h"
#include "proto/wire/attend_encode.h"
#include "server/rpc/attend_header.h"
#include "server/rpc/make_job.h"
#include "server/rpc/payload_sizes.h"
#include "server/rpc/status.h"

namespace tessera {
namespace {

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
  call->Begin(request);
  return call;
}

AttendUnary::AttendUnary(const AttendEnvironment& environment, grpc::CallbackServerContext* context,
                         grpc::ByteBuffer* response)
    : UnaryJobCall(environment, RpcMethod::kAttend, context, response), environment_(environment) {}

absl::StatusOr<AttendUnary::Admitted> AttendUnary::Admit(const grpc::ByteBuffer& request, std::string tenant,
                                                         absl::Time deadline, AttendJob::DoneFn done) {
  const absl::StatusOr<wire::DecodedAttendRequest> message = wire::DecodeAttendRequest(request);
  if (!message.ok()) return message.status();
  if (!message->header.has_value()) return absl::InvalidArgumentError("header: missing");
  absl::StatusOr<AttendSpec> spec = ToAttendSpec(*message->header, environment_.limits.request);
  if (!spec.ok()) return spec.status();
  if (absl::Status fits = CheckUnaryAnswer(spec->shape); !fits.ok()) return fits;
  if (absl::Status sizes = CheckPayloadSizes(*message, spec->shape); !sizes.ok()) return sizes;
  if (deadline <= environment_.clock->Now()) {
    return absl::DeadlineExceededError("the deadline passed before the call was received");
  }
  absl::StatusOr<Admission::Grant> grant =
      environment_.admission->AdmitCall(tenant, spec->shape, static_cast<int64_t>(request.Length()));
  if (!grant.ok()) return grant.status();

  std::byte* const input = grant->input.data();
  message->q.CopyTo(input);
  message->k.CopyTo(input + spec->shape.q_bytes);
  message->v.CopyTo(input + spec->shape.q_bytes + spec->shape.kv_bytes);
  environment_.observer->OnPayloadCopied(spec->shape.input_bytes());

  Admitted admitted;
  admitted.ticket = std::move(grant->ticket);
  admitted.job = MakeAttendJob(*std::move(spec), std::move(tenant), deadline, *std::move(grant), std::move(done));
  return admitted;
}

void AttendUnary::Queue(const JobPtr& job) {
  const absl::Status queued = environment_.scheduler->Enqueue(job);
  if (!queued.ok()) job->Finish(WithReason(queued, RejectReason::kQueue));
}

void AttendUnary::Forget(const AttendJob& job) { environment_.scheduler->Forget(job); }

grpc::ByteBuffer AttendUnary::Encode(const JobPtr& job) { return EncodeAnswer(job); }

}  // namespace tessera
