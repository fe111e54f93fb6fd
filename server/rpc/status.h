// Statuses on their way out: the one place where the domain's become the protocol's.
#ifndef TESSERA_SERVER_RPC_STATUS_H_
#define TESSERA_SERVER_RPC_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
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

// As above, with the redirect. `retry_after` goes with an error, rounded up to milliseconds; 0: nothing.
v1::CallStatus ToCallStatus(const absl::Status& status, absl::Duration retry_after);

// Adds the trailing metadata that tells a retrying client when to come back. REQUIRES: Finish has not been called.
void AddRetryPushback(absl::Duration retry_after, grpc::CallbackServerContext* context);

// NOT_FOUND of a sequence that the server at `address` keeps: callers hear the address beside the message, not in it.
absl::Status KeptElsewhere(absl::string_view address);
// That address; empty in every other status.
std::string RedirectOf(const absl::Status& status);

// Adds the trailing metadata that tells where the call belongs, if the status does. REQUIRES: as above.
void AddRedirect(const absl::Status& status, grpc::CallbackServerContext* context);

// Where a call in `state` is.
Station StationOf(Job::State state);

// `status`, with what was full. Whoever refuses a call for want of room says so; nobody but CountEnding counts it.
absl::Status WithReason(absl::Status status, RejectReason reason);

// UNAVAILABLE of a call on a stream whose token is not valid any more: it is not counted as draining.
absl::Status TokenGone(absl::string_view message);

// Counts a call that ended with an error, once: expired, cancelled or rejected. RESOURCE_EXHAUSTED without a reason is
// the device's, UNAVAILABLE a server's that drains. OK counts nothing.
void CountEnding(const absl::Status& status, Station where, RpcObserver* observer);

// When a caller refused with `status` should come back, the queue needing `queue_time` to empty; 0 where nothing can be
// said. At least
//   kMemoryRetry  for memory, pages and a stream's calls, which come back call by call and not at once,
//   kStripeRetry  for a place among striped calls, which is free when another call's streams have all come: some round
//                 trips, or stripe_timeout if they never do,
//   kDrainRetry   of a server that drains: this one will not be back, but its connections are closed by then, so that
//                 the next attempt finds another or fails at once.
inline constexpr absl::Duration kMemoryRetry = absl::Milliseconds(25);
inline constexpr absl::Duration kStripeRetry = absl::Milliseconds(100);
inline constexpr absl::Duration kDrainRetry = absl::Milliseconds(200);
absl::Duration RetryAfter(const absl::Status& status, absl::Duration queue_time);

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_STATUS_H_
