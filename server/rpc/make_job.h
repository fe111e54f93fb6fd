// Turns admitted calls into the jobs that are queued for them.
#ifndef TESSERA_SERVER_RPC_MAKE_JOB_H_
#define TESSERA_SERVER_RPC_MAKE_JOB_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "server/request/attend_job.h"
#include "server/rpc/admission.h"
#include "server/rpc/attend_header.h"
#include "server/rpc/region_tensors.h"

namespace tessera {

// The memory of the grant goes to the job; move the ticket out first. REQUIRES: the grant was given for spec.shape.
std::shared_ptr<AttendJob> MakeAttendJob(AttendSpec spec, std::string tenant, absl::Time deadline,
                                         Admission::Grant grant, AttendJob::DoneFn done);

// Likewise of a call in regions, which the tensors' lease keeps. `charge` is for what the call holds beside them.
std::shared_ptr<AttendJob> MakeRegionJob(AttendSpec spec, std::string tenant, absl::Time deadline,
                                         ByteBudget::Charge charge, ResolvedTensors tensors, AttendJob::DoneFn done);

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_MAKE_JOB_H_
