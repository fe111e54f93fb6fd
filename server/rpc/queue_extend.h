// From an admitted Extend call to a job in the queue.
#ifndef TESSERA_SERVER_RPC_QUEUE_EXTEND_H_
#define TESSERA_SERVER_RPC_QUEUE_EXTEND_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/request/extend_job.h"
#include "server/rpc/admission.h"
#include "server/rpc/extend_header.h"
#include "server/rpc/sequence_environment.h"

namespace tessera {

// The memory of the grant goes to the job; move the ticket out first. What the call will cost depends on how long the
// sequences are: NOT_FOUND where one is not there, INVALID_ARGUMENT beyond limits.max_request_cost; both are looked at
// again when its turn comes. REQUIRES: the grant was given for spec.shape.
absl::StatusOr<ExtendJobPtr> MakeExtendJob(const RequestLimits& limits, ExtendSpec spec, std::string tenant,
                                           absl::Time deadline, Admission::Grant grant, ExtendJob::DoneFn done);

// Has the job queued as soon as it is its turn on all of its sequences: at once, or when an earlier call ends, on that
// one's thread. It is ended there with NOT_FOUND, RESOURCE_EXHAUSTED or whatever else SequenceCache::Reserve and
// Scheduler::Enqueue say, but not with ABORTED: only moves can be in its way, and passing ones. Until then it counts
// against the queue's bounds, and is ended at once where they are reached. REQUIRES: all of the job's input is there.
void QueueInTurn(const SequenceEnvironment& environment, const ExtendJobPtr& job);

// Takes a job that has ended out of the queue and, where its turn has not come, out of the lines: nothing holds it any
// more for their sake.
void Forget(const SequenceEnvironment& environment, const ExtendJob& job);

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_QUEUE_EXTEND_H_
