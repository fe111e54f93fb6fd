// Extend messages into the domain and back: the one place where their fields get a meaning.
#ifndef TESSERA_SERVER_RPC_EXTEND_HEADER_H_
#define TESSERA_SERVER_RPC_EXTEND_HEADER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/request/extend_job.h"
#include "server/request/extend_shape.h"
#include "server/request/resident_cache.h"
#include "server/rpc/sequence_environment.h"
#include "server/scheduler/job.h"
#include "tessera/v1/sequence.pb.h"

namespace tessera {

// What a caller asks for.
struct ExtendSpec {
  ResidentCachePtr cache;
  ExtendShape shape;
  JobPriority priority = JobPriority::kNormal;
};

// NOT_FOUND where a handle was given out by no cache here; INVALID_ARGUMENT naming the field and the limit for
// sequences of several profiles, and for whatever ReadOptions and ExtendShape::Make refuse. Looks no sequence up.
absl::StatusOr<ExtendSpec> ToExtendSpec(const v1::ExtendHeader& header, const SequenceEnvironment& environment);

// Lengths and times of a job that ended OK.
v1::ExtendResult ToExtendResult(const ExtendJob& job);

v1::CacheProfile ToMessage(const CacheProfile& profile);

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_EXTEND_HEADER_H_
