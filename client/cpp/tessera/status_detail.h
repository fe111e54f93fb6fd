// What a server tells beside a failed call's code and message, as a part of its status.
#ifndef TESSERA_CLIENT_CPP_TESSERA_STATUS_DETAIL_H_
#define TESSERA_CLIENT_CPP_TESSERA_STATUS_DETAIL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/client_context.h"

namespace tessera {

// A detail by its name; empty where the status has none.
std::string StatusDetail(const absl::Status& status, absl::string_view name);

// `status` with a detail; without where that is empty. REQUIRES: `status` is not OK where it is not.
absl::Status WithStatusDetail(absl::Status status, absl::string_view name, absl::string_view detail);

// What an RPC which has ended says under `key` in its trailing metadata; empty where it says nothing.
std::string TrailingValue(const grpc::ClientContext& rpc, const std::string& key);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_STATUS_DETAIL_H_
