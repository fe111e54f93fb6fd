// What can be wrong with how a client is asked to connect.
#ifndef TESSERA_CLIENT_CPP_TESSERA_CLIENT_CHECKS_H_
#define TESSERA_CLIENT_CPP_TESSERA_CLIENT_CHECKS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/tessera/endpoint.h"
#include "client/cpp/tessera/options.h"

namespace tessera {

// The servers that `target` names, at least one. INVALID_ARGUMENT where it names none, or none that can be.
absl::StatusOr<std::vector<Endpoint>> ParseTarget(const std::string& target, const ClientOptions& options);

// INVALID_ARGUMENT naming the option that is out of range.
absl::Status CheckOptions(const ClientOptions& options);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_CLIENT_CHECKS_H_
