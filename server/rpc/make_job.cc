#include "server/rpc/make_job.h"

#include <utility>

namespace tessera {
namespace {

Job::Traits TraitsOf(const AttendSpec& spec, std::string tenant, absl::Time deadline, int64_t bytes) {
  Job::Traits traits;
  traits.key = AttendJob::Key(spec.shape.params);
  traits.tenant = std::move(tenant);
  traits.priority = spec.priority;
  traits.cost = spec.shape.Cost();
  traits.bytes = bytes;
  traits.tokens = spec.shape.q_tokens;
  traits.sequences = spec.shape.sequences();
  traits.deadline = deadline;
  return traits;
}

}  // namespace

std::shared_ptr<AttendJob> MakeAttendJob(AttendSpec spec, std::string tenant, absl::Time deadline,
                                         Admission::Grant grant, AttendJob::DoneFn done) {
  Job::Traits traits = TraitsOf(spec, std::move(tenant), deadline, spec.shape.held_bytes());
  return std::make_shared<AttendJob>(std::move(traits), std::move(spec.shape), std::move(grant.input),
                                     std::move(grant.output), std::move(grant.charge), std::move(done));
}

std::shared_ptr<AttendJob> MakeRegionJob(AttendSpec spec, std::string tenant, absl::Time deadline,
                                         ByteBudget::Charge charge, ResolvedTensors tensors, AttendJob::DoneFn done) {
  Job::Traits traits = TraitsOf(spec, std::move(tenant), deadline, spec.shape.metadata_bytes());
  if (tensors.device >= 0) traits.device = tensors.device;
  return std::make_shared<AttendJob>(std::move(traits), std::move(spec.shape), std::move(tensors.places),
                                     std::move(charge), std::move(done));
}

}  // namespace tessera
