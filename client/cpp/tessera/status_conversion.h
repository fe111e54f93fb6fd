// Statuses of gRPC and of CallStatus as Abseil's. The codes are the same numbers in all three.
#ifndef TESSERA_CLIENT_CPP_TESSERA_STATUS_CONVERSION_H_
#define TESSERA_CLIENT_CPP_TESSERA_STATUS_CONVERSION_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/support/status.h"
#include "tessera/v1/attention.pb.h"

namespace tessera {

inline absl::Status ToAbslStatus(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// Codes outside 0 to 16 become UNKNOWN.
inline absl::Status ToAbslStatus(const v1::CallStatus& status) {
  const bool known = status.code() >= 0 && status.code() <= 16;
  return absl::Status(known ? static_cast<absl::StatusCode>(status.code()) : absl::StatusCode::kUnknown,
                      status.message());
}

// `status`, but UNAVAILABLE for CANCELLED: where nobody here has cancelled, the server has, because it stops or because
// it has given the call up, and to the caller that is a server that is gone. REQUIRES: nobody here has cancelled.
inline absl::Status UnavailableIfCancelled(absl::Status status) {
  if (!absl::IsCancelled(status)) return status;
  return absl::UnavailableError(absl::StrCat("the server has cancelled the call: ", status.message()));
}

// What the end of a stream means for a call on it. Codes by which a server turns the stream itself away are passed on;
// all others say that the connection or the server is lost.
inline absl::Status LostStatus(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::UNIMPLEMENTED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::INVALID_ARGUMENT:
      return ToAbslStatus(status);
    default:
      return absl::UnavailableError(absl::StrCat("the stream has ended: ", status.error_message()));
  }
}

// The two codes that a call is tried again for.
inline bool IsRetryable(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kResourceExhausted;
}

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_STATUS_CONVERSION_H_
