// The standard health check, grpc.health.v1.Health/Check.
#ifndef TESSERA_CLIENT_CPP_TESSERA_HEALTH_CHECK_H_
#define TESSERA_CLIENT_CPP_TESSERA_HEALTH_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/generic/generic_stub.h"

namespace tessera {

// As Client::CheckHealth.
absl::Status CheckHealth(grpc::GenericStub* stub, absl::string_view service, absl::Time deadline);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_HEALTH_CHECK_H_
