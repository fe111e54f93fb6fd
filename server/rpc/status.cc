#include "server/rpc/status.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tessera {
namespace {

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
  if (absl::IsResourceExhausted(status)) {
    call_status.set_retry_after_ms(static_cast<uint32_t>(RoundedUpMillis(retry_after)));
  }
  return call_status;
}

void AddRetryPushback(absl::Duration retry_after, grpc::CallbackServerContext* context) {
  context->AddTrailingMetadata("grpc-retry-pushback-ms", absl::StrCat(RoundedUpMillis(retry_after)));
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

void CountEnding(const absl::Status& status, Station where, RpcObserver* observer) {
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return observer->OnExpired(where);
    case absl::StatusCode::kCancelled:
      return observer->OnCancelled(where);
    case absl::StatusCode::kResourceExhausted:
      if (where != Station::kReceive) observer->OnRejected(RejectReason::kDeviceMemory);
      return;
    case absl::StatusCode::kUnavailable:
      return observer->OnRejected(RejectReason::kDraining);
    default:
      return;
  }
}

void CountNotQueued(const absl::Status& status, RpcObserver* observer) {
  if (absl::IsResourceExhausted(status)) observer->OnRejected(RejectReason::kQueue);
}

}  // namespace tessera
