// Who calls, and until when the answer is wanted: read from an RPC's context.
#ifndef TESSERA_SERVER_RPC_CALLER_H_
#define TESSERA_SERVER_RPC_CALLER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "server/clock/clock.h"

namespace tessera {

// Metadata key that names the tenant whose fair share a call draws on.
inline constexpr char kTenantKey[] = "tessera-tenant";
inline constexpr char kDefaultTenant[] = "default";
inline constexpr size_t kMaxTenantBytes = 64;

// The tenant, or kDefaultTenant where none is named. INVALID_ARGUMENT above kMaxTenantBytes.
absl::StatusOr<std::string> TenantOf(const grpc::CallbackServerContext& context);

// The RPC's deadline on `clock`. gRPC gives it as a time of day: ask once, on arrival.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context, const Clock& clock);

// Why gRPC cancels the RPC: DEADLINE_EXCEEDED or CANCELLED. It tells a deadline that passed from a client that gave up
// or went away only by the time.
absl::Status CancellationReason(const grpc::CallbackServerContext& context);

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_CALLER_H_
