// When a call that was refused may be tried again, as a part of its status.
#ifndef TESSERA_CLIENT_CPP_TESSERA_RETRY_AFTER_H_
#define TESSERA_CLIENT_CPP_TESSERA_RETRY_AFTER_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"

namespace tessera {

// The server's pushback, in whole milliseconds; zero where it names none. A call that ended with RESOURCE_EXHAUSTED and
// a pushback was refused as a whole: nothing of it was done.
absl::Duration RetryAfter(const absl::Status& status);

// `status` with a pushback. REQUIRES: `status` is not OK where `retry_after` is over zero.
absl::Status WithRetryAfter(absl::Status status, absl::Duration retry_after);

// What an RPC that has ended says in its trailing metadata; zero where it says nothing.
absl::Duration PushbackOf(const grpc::ClientContext& rpc);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_RETRY_AFTER_H_
