#include "server/rpc/extend_message.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/wire/attend_encode.h"
#include "server/rpc/extend_header.h"
#include "server/rpc/payload_sizes.h"
#include "server/rpc/queue_extend.h"

namespace tessera {
namespace {

// An answer must fit into one message.
absl::Status CheckAnswer(const ExtendShape& shape) {
  // More than the result's fixed fields, and a length of each entry, ever take.
  const int64_t envelope = 1024 + 10 * static_cast<int64_t>(shape.entries.size());
  const int64_t most = static_cast<int64_t>(wire::kMaxMessageBytes) - envelope;
  if (shape.output_bytes() <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("entries: an answer of ", shape.output_bytes(),
                                                 " bytes is more than the ", most, " that one message takes"));
}

// What the message asks for, its sequences not looked up yet.
absl::StatusOr<ExtendSpec> ReadSpec(const SequenceEnvironment& environment, const wire::DecodedExtendRequest& message) {
  absl::StatusOr<ExtendSpec> spec = ToExtendSpec(*message.header, environment);
  if (!spec.ok()) return spec.status();
  if (absl::Status fits = CheckAnswer(spec->shape); !fits.ok()) return fits;
  if (absl::Status sizes = CheckPayloadSizes(message, spec->shape); !sizes.ok()) return sizes;
  return spec;
}

// NOT_FOUND where one of the handles is not good for the tenant. A header of more entries than there may be is not
// looked through.
absl::Status CheckHandles(const SequenceEnvironment& environment, absl::string_view tenant,
                          const v1::ExtendHeader& header) {
  if (header.entries_size() > environment.attend.limits.request.max_sequences) return absl::OkStatus();
  for (const v1::ExtendEntry& entry : header.entries()) {
    const absl::StatusOr<SequenceEnvironment::Named> named = environment.OfHandle(entry.sequence());
    if (!named.ok()) return named.status();
    const absl::Status found = named->cache->sequences().LayerLength(tenant, named->handle, 0).status();
    if (!found.ok()) return found;
  }
  return absl::OkStatus();
}

// Bytes of the job's output; none where there are none.
std::vector<grpc::Slice> OutputSlices(const ExtendJobPtr& job, int64_t offset, int64_t bytes) {
  std::vector<grpc::Slice> slices;
  if (bytes > 0) {
    slices.push_back(
        wire::AliasSlice(absl::MakeConstSpan(job->output().data() + offset, static_cast<size_t>(bytes)), job));
  }
  return slices;
}

}  // namespace

absl::StatusOr<AdmittedExtend> AdmitExtend(const SequenceEnvironment& environment, std::string tenant,
                                           const wire::DecodedExtendRequest& message, int64_t message_bytes,
                                           absl::Time deadline, ExtendJob::DoneFn done) {
  const AttendEnvironment& attend = environment.attend;
  if (!message.header.has_value()) return absl::InvalidArgumentError("header: missing");
  absl::StatusOr<ExtendSpec> spec = ReadSpec(environment, message);
  if (!spec.ok()) {
    // What else is wrong is for those to hear whose sequences they are: handles that are not good all look the same.
    const absl::Status handles = CheckHandles(environment, tenant, *message.header);
    return handles.ok() ? spec.status() : handles;
  }
  const ExtendShape& shape = spec->shape;
  if (deadline <= attend.clock->Now()) {
    return absl::DeadlineExceededError("the deadline passed before the call was received");
  }
  absl::StatusOr<Admission::Grant> grant = attend.admission->AdmitCall(
      tenant, Admission::CallMemory{shape.input_bytes(), shape.output_bytes(), shape.held_bytes()}, message_bytes);
  if (!grant.ok()) return grant.status();

  AdmittedExtend admitted;
  admitted.ticket = std::move(grant->ticket);
  std::byte* const q = grant->input.data();
  std::byte* const k = q + shape.q_bytes;
  std::byte* const v = k + shape.kv_bytes;
  const int64_t input_bytes = shape.input_bytes();
  absl::StatusOr<ExtendJobPtr> job = MakeExtendJob(attend.limits.request, *std::move(spec), std::move(tenant), deadline,
                                                   *std::move(grant), std::move(done));
  if (!job.ok()) return job.status();
  message.q.CopyTo(q);
  message.k.CopyTo(k);
  message.v.CopyTo(v);
  attend.observer->OnPayloadCopied(input_bytes);
  admitted.job = *std::move(job);
  return admitted;
}

grpc::ByteBuffer EncodeExtendAnswer(const ExtendJobPtr& job) {
  v1::ExtendResponse message;
  *message.mutable_result() = ToExtendResult(*job);
  const ExtendShape& shape = job->shape();
  return wire::EncodeExtendResponse(message, OutputSlices(job, 0, shape.q_bytes),
                                    OutputSlices(job, shape.q_bytes, shape.lse_bytes));
}

grpc::ByteBuffer EncodeExtendStreamAnswer(uint64_t id, const ExtendJobPtr& job) {
  v1::ExtendStreamResponse message;
  message.set_id(id);
  *message.mutable_result() = ToExtendResult(*job);
  message.mutable_status();
  const ExtendShape& shape = job->shape();
  return wire::EncodeExtendStreamResponse(message, OutputSlices(job, 0, shape.q_bytes),
                                          OutputSlices(job, shape.q_bytes, shape.lse_bytes));
}

}  // namespace tessera
