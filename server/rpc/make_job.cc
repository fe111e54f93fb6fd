#include "server/rpc/make_job.h"

#include <utility>

namespace tessera {

std::shared_ptr<AttendJob> MakeAttendJob(AttendSpec spec, std::string tenant, absl::Time deadline,
                                         Admission::Grant grant, AttendJob::DoneFn done) {
  Job::Traits traits;
  traits.key = AttendJob::Key(spec.shape.params);
  traits.tenant = std::move(tenant);
  traits.priority = spec.priority;
  traits.cost = spec.shape.Cost();
  traits.bytes = spec.shape.held_bytes();
  traits.tokens = spec.shape.q_tokens;
  traits.sequences = spec.shape.sequences();
  traits.deadline = deadline;
  return std::make_shared<AttendJob>(std::move(traits), std::move(spec.shape), std::move(grant.input),
                                     std::move(grant.output), std::move(grant.charge), std::move(done));
}

}  // namespace tessera
