// Who calls, and until when the answer is wanted: read from an RPC's context.
#ifndef TESSERA_SERVER_RPC_CALLER_H_
#define TESSERA_SERVER_RPC_CALLER_H_

#include <grpc/support/time.h>

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/string_ref.h"
#include "server/clock/clock.h"
#include "server/credentials/token_table.h"

namespace tessera {

// Metadata key that names the tenant whose fair share a call draws on.
inline constexpr char kTenantKey[] = "tessera-tenant";
inline constexpr char kDefaultTenant[] = "default";
inline constexpr size_t kMaxTenantBytes = 64;

using CallMetadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// Without `tokens` (null): the tenant that the metadata names, or kDefaultTenant; INVALID_ARGUMENT above
// kMaxTenantBytes. With them: the bearer token's tenant; UNAUTHENTICATED where there is no token or it is not known,
// PERMISSION_DENIED where the metadata names another tenant.
absl::StatusOr<std::string> TenantOf(const CallMetadata& metadata, const Tokens* tokens);

// Whether the peer of an RPC, as gRPC names it, is on this host: it came over a Unix socket or a loopback address.
bool IsLocalPeer(absl::string_view peer);

// What is left until a deadline of gRPC's, by the clock that it is on: negative once it has passed. Not by the time of
// day, which may jump, and whose nanoseconds since 1970, as context.deadline() has them, end in 2262.
absl::Duration TimeLeft(gpr_timespec deadline);

// The RPC's deadline on `clock`.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context, const Clock& clock);

// A timeout as messages of streams carry it: 0, and what no one waits for, is without end.
absl::Duration ToTimeout(uint64_t timeout_us);

// Why gRPC cancels the RPC: DEADLINE_EXCEEDED or CANCELLED. It tells a deadline that passed from a client that gave up
// or went away only by the time.
absl::Status CancellationReason(const grpc::CallbackServerContext& context);

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_CALLER_H_
