#include "server/rpc/status.h"

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tessera {
namespace {

constexpr absl::string_view kReasonPayload = "tessera.dev/reject_reason";

constexpr absl::string_view kRedirectPayload = "tessera.dev/redirect";

void SetReason(RejectReason reason, absl::Status* status) {
  status->SetPayload(kReasonPayload, absl::Cord(absl::StrCat(static_cast<int>(reason))));
}

// The one that has been set, or `otherwise`.
RejectReason ReasonOf(const absl::Status& status, RejectReason otherwise) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kReasonPayload);
  int reason;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &reason)) return otherwise;
  return static_cast<RejectReason>(reason);
}

std::string ShortMessage(const absl::Status& status) {
  return std::string(status.message().substr(0, kMaxStatusMessageBytes));
}

int64_t RoundedUpMillis(absl::Duration duration) {
  return std::max<int64_t>(1, absl::ToInt64Milliseconds(absl::Ceil(duration, absl::Milliseconds(1))));
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), ShortMessage(status));
}

v1::CallStatus ToCallStatus(const absl::Status& status, absl::Duration retry_after) {
  v1::CallStatus call_status;
  call_status.set_code(static_cast<int>(status.code()));
  if (!status.ok()) call_status.set_message(ShortMessage(status));
  call_status.set_redirect(RedirectOf(status));
  if (!status.ok() && retry_after > absl::ZeroDuration()) {
    call_status.set_retry_after_ms(static_cast<uint32_t>(RoundedUpMillis(retry_after)));
  }
  return call_status;
}

void AddRetryPushback(absl::Duration retry_after, grpc::CallbackServerContext* context) {
  context->AddTrailingMetadata("grpc-retry-pushback-ms", absl::StrCat(RoundedUpMillis(retry_after)));
}

absl::Status KeptElsewhere(absl::string_view address) {
  absl::Status status = absl::NotFoundError("the sequence is on another server");
  status.SetPayload(kRedirectPayload, absl::Cord(address));
  return status;
}

std::string RedirectOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRedirectPayload);
  return payload.has_value() ? std::string(*payload) : std::string();
}

void AddRedirect(const absl::Status& status, grpc::CallbackServerContext* context) {
  if (const std::string address = RedirectOf(status); !address.empty()) {
    context->AddTrailingMetadata("tessera-redirect", address);
  }
}

Station StationOf(Job::State state) {
  switch (state) {
    case Job::State::kCreated:
      return Station::kReceive;
    case Job::State::kQueued:
      return Station::kQueue;
    case Job::State::kBatched:
      return Station::kBatch;
    case Job::State::kRunning:
      return Station::kRun;
    case Job::State::kDone:
      return Station::kSend;
  }
  return Station::kSend;
}

absl::Status WithReason(absl::Status status, RejectReason reason) {
  if (absl::IsResourceExhausted(status)) SetReason(reason, &status);
  return status;
}

absl::Status TokenGone(absl::string_view message) {
  absl::Status status = absl::UnavailableError(message);
  SetReason(RejectReason::kToken, &status);
  return status;
}

void CountEnding(const absl::Status& status, Station where, RpcObserver* observer) {
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return observer->OnExpired(where);
    case absl::StatusCode::kCancelled:
      return observer->OnCancelled(where);
    case absl::StatusCode::kInvalidArgument:
      return observer->OnRejected(RejectReason::kInvalid);
    case absl::StatusCode::kResourceExhausted:
      return observer->OnRejected(ReasonOf(status, RejectReason::kDeviceMemory));
    case absl::StatusCode::kUnavailable:
      return observer->OnRejected(ReasonOf(status, RejectReason::kDraining));
    case absl::StatusCode::kUnauthenticated:
      return observer->OnRejected(RejectReason::kUnauthenticated);
    case absl::StatusCode::kPermissionDenied:
      return observer->OnRejected(RejectReason::kTenant);
    case absl::StatusCode::kNotFound:
      return observer->OnRejected(RejectReason::kNotFound);
    case absl::StatusCode::kAborted:
      return observer->OnRejected(RejectReason::kConflict);
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return observer->OnRejected(RejectReason::kPrecondition);
    case absl::StatusCode::kOk:
      return;
    default:
      return observer->OnRejected(RejectReason::kInternal);
  }
}

absl::Duration RetryAfter(const absl::Status& status, absl::Duration queue_time) {
  if (absl::IsUnavailable(status)) return kDrainRetry;
  if (!absl::IsResourceExhausted(status)) return absl::ZeroDuration();
  switch (ReasonOf(status, RejectReason::kDeviceMemory)) {
    case RejectReason::kByteBudget:
    case RejectReason::kStaging:
    case RejectReason::kDeviceMemory:
    case RejectReason::kStreamCalls:
    case RejectReason::kKvPages:
      return std::max(queue_time, kMemoryRetry);
    case RejectReason::kStripes:
      return std::max(queue_time, kStripeRetry);
    default:
      return queue_time;
  }
}

}  // namespace tessera
