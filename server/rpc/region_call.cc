#include "server/rpc/region_call.h"

#include <utility>
#include <vector>

#include "server/rpc/make_job.h"
#include "server/rpc/status.h"

namespace tessera {

// What a job holds of its call: destroyed with it.
class RegionCall::Lease {
 public:
  Lease(std::shared_ptr<RegionCall> call, std::vector<std::shared_ptr<MemoryRegion>> regions)
      : call_(std::move(call)), regions_(std::move(regions)) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    regions_.clear();
    call_->Answer();
  }

 private:
  const std::shared_ptr<RegionCall> call_;
  std::vector<std::shared_ptr<MemoryRegion>> regions_;
};

absl::StatusOr<std::shared_ptr<RegionCall>> RegionCall::Create(const AttendEnvironment& environment, Opening opening,
                                                               AnswerFn answer) {
  absl::StatusOr<Admission::Grant> grant =
      environment.admission->AdmitRegionCall(opening.tenant, opening.spec.shape, opening.message_bytes);
  if (!grant.ok()) return grant.status();
  std::shared_ptr<RegionCall> call(new RegionCall(environment, opening, std::move(grant->ticket), std::move(answer)));
  ResolvedTensors& tensors = opening.tensors;
  tensors.places.lease = std::make_shared<const Lease>(call, std::move(tensors.regions));
  // The job keeps the call by its lease, so that the call may be a plain pointer to the job's end.
  call->queued_ = MakeRegionJob(
      std::move(opening.spec), std::move(opening.tenant), opening.deadline, std::move(grant->charge),
      std::move(tensors),
      [call = call.get()](const absl::Status& status, Job::State where) { call->OnJobEnded(status, where); });
  call->job_ = call->queued_;
  return call;
}

RegionCall::RegionCall(const AttendEnvironment& environment, const Opening& opening, Admission::Ticket ticket,
                       AnswerFn answer)
    : environment_(environment),
      received_(opening.received),
      memory_(opening.tensors.memory),
      ticket_(std::move(ticket)),
      answer_(std::move(answer)) {}

void RegionCall::Enqueue() {
  const std::shared_ptr<AttendJob> job = std::move(queued_);
  const absl::Time now = environment_.clock->Now();
  job->SetArrival(received_, now);
  environment_.observer->OnStage(Stage::kReceive, now - received_);
  const absl::Status queued = environment_.scheduler->Enqueue(job);
  if (!queued.ok()) job->Finish(WithReason(queued, RejectReason::kQueue));
}

void RegionCall::End(const absl::Status& status) {
  const std::shared_ptr<AttendJob> job = job_.lock();
  if (job != nullptr && job->Finish(status)) environment_.scheduler->Forget(*job);
}

void RegionCall::OnJobEnded(const absl::Status& status, Job::State where) {
  CountEnding(status, StationOf(where), environment_.observer);
  Ending ending{status, {}, absl::InfinitePast()};
  if (status.ok()) {
    const std::shared_ptr<AttendJob> job = job_.lock();  // held by whoever ends it
    const AttendShape& shape = job->shape();
    environment_.observer->OnStage(Stage::kQueue, job->times().launched - job->times().queued);
    environment_.observer->OnRegionPayload(memory_, shape.input_bytes(), shape.output_bytes());
    ending.result = ToAttendResult(shape, job->times());
    ending.finished = job->times().finished;
  }
  {
    absl::MutexLock lock(&mutex_);
    ending_ = std::move(ending);
  }
  // A job that ended well has been let go of by its device.
  if (status.ok() || absl::IsUnavailable(status)) Answer();
}

void RegionCall::Answer() {
  AnswerFn answer;
  Ending ending;
  {
    absl::MutexLock lock(&mutex_);
    if (answer_ == nullptr || !ending_.has_value()) return;
    answer.swap(answer_);
    ending = *ending_;
  }
  answer(shared_from_this(), ending);
}

}  // namespace tessera
