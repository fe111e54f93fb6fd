// Statuses on their way out: the one place where the domain's become the protocol's.
#ifndef TESSERA_SERVER_RPC_STATUS_H_
#define TESSERA_SERVER_RPC_STATUS_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"
#include "server/rpc/rpc_observer.h"
#include "server/scheduler/job.h"
#include "tessera/v1/attention.pb.h"

namespace tessera {

// Messages are cut to this many bytes, so that the trailers fit into one header frame.
inline constexpr size_t kMaxStatusMessageBytes = 1024;

// Codes are the same numbers in Abseil and gRPC.
grpc::Status ToGrpcStatus(const absl::Status& status);

// As above. With RESOURCE_EXHAUSTED goes `retry_after`, rounded up to milliseconds.
v1::CallStatus ToCallStatus(const absl::Status& status, absl::Duration retry_after);

// Adds the trailing metadata that tells a retrying client when to come back. REQUIRES: Finish has not been called.
void AddRetryPushback(absl::Duration retry_after, grpc::CallbackServerContext* context);

// Where a call in `state` is.
Station StationOf(Job::State state);

// Counts an admitted call that ended with an error: expired, cancelled or rejected. RESOURCE_EXHAUSTED on reception has
// been counted, with its reason, by who said so. OK and other codes count as handled RPCs alone.
void CountEnding(const absl::Status& status, Station where, RpcObserver* observer);

// Counts a job that the scheduler would not take, where CountEnding does not.
void CountNotQueued(const absl::Status& status, RpcObserver* observer);

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_STATUS_H_
