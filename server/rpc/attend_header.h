// Attend messages into the domain and back: the one place where their fields get a meaning.
#ifndef TESSERA_SERVER_RPC_ATTEND_HEADER_H_
#define TESSERA_SERVER_RPC_ATTEND_HEADER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/request/attend_job.h"
#include "server/request/attend_shape.h"
#include "server/scheduler/job.h"
#include "tessera/v1/attention.pb.h"

namespace tessera {

// What a caller asks for.
struct AttendSpec {
  AttendShape shape;
  JobPriority priority = JobPriority::kNormal;
};

// INVALID_ARGUMENT for UNSPECIFIED and unknown values.
absl::StatusOr<DType> ToDType(v1::DataType dtype);

// What options ask for, into `params` (scale, softcap, mask) and `priority`. INVALID_ARGUMENT naming the field: unknown
// enum values, window bounds without a window. REQUIRES: params->head_dim is what the call says.
absl::Status ReadOptions(const v1::AttentionOptions& options, AttentionParams* params, JobPriority* priority);

// INVALID_ARGUMENT naming the field and the limit: unknown enum values, window bounds without a window, and whatever
// AttendShape::Make refuses.
absl::StatusOr<AttendSpec> ToAttendSpec(const v1::AttendHeader& header, const RequestLimits& limits);

// INVALID_ARGUMENT where the answer is too large for one message.
absl::Status CheckUnaryAnswer(const AttendShape& shape);

v1::Timing ToTiming(const JobTimes& times);

// Sizes and times of a job that ended OK.
v1::AttendResult ToAttendResult(const AttendShape& shape, const JobTimes& times);

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_ATTEND_HEADER_H_
