#include "client/cpp/tessera/region_session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "client/cpp/tessera/attend_operation.h"
#include "client/cpp/tessera/channel.h"
#include "client/cpp/tessera/client_checks.h"
#include "client/cpp/tessera/region_rpc.h"
#include "client/cpp/tessera/shared_mapping.h"
#include "client/cpp/tessera/status_conversion.h"

namespace tessera {
namespace {

// How long the server may take to end a half-closed stream.
constexpr absl::Duration kGoodbyeTimeout = absl::Seconds(2);
// How long the answer to a call may take beyond the call's timeout. The server keeps to that by itself, but answers
// only when the device has let go of the tensors.
constexpr absl::Duration kAnswerGrace = absl::Seconds(1);

v1::AttendInRegionsRequest CloseRequest(uint64_t region) {
  v1::AttendInRegionsRequest request;
  request.mutable_close()->set_region(region);
  return request;
}

uint64_t Microseconds(absl::Duration timeout) {
  if (timeout == absl::InfiniteDuration()) return 0;
  return static_cast<uint64_t>(std::max<int64_t>(1, absl::ToInt64Microseconds(timeout)));
}

// Withdraws one call.
class RegionCallHandle final : public CallHandle::Cancellable {
 public:
  RegionCallHandle(std::weak_ptr<RegionRpc> stream, uint64_t id) : stream_(std::move(stream)), id_(id) {}
  void Cancel() override {
    if (const std::shared_ptr<RegionRpc> stream = stream_.lock()) stream->CancelCall(id_);
  }

 private:
  const std::weak_ptr<RegionRpc> stream_;
  const uint64_t id_;
};

}  // namespace

Region::Region(std::weak_ptr<RegionRpc> stream, uint64_t id, absl::Span<std::byte> memory,
               std::unique_ptr<SharedMapping> mapping)
    : stream_(std::move(stream)), id_(id), memory_(memory), mapping_(std::move(mapping)) {}

Region::Region(Region&& other) noexcept
    : stream_(std::move(other.stream_)),
      id_(std::exchange(other.id_, 0)),
      memory_(std::exchange(other.memory_, {})),
      mapping_(std::move(other.mapping_)) {}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(stream_, other.stream_);
  std::swap(id_, other.id_);
  std::swap(memory_, other.memory_);
  std::swap(mapping_, other.mapping_);
  return *this;
}

Region::~Region() {
  const uint64_t id = id_;
  if (const std::shared_ptr<RegionRpc> stream = Withdraw()) {
    stream->SendClose(id);
  }
}

absl::Status Region::Close() {
  const uint64_t id = id_;
  const std::shared_ptr<RegionRpc> stream = Withdraw();
  return stream == nullptr ? absl::OkStatus() : stream->Ask(CloseRequest(id)).status();
}

std::shared_ptr<RegionRpc> Region::Withdraw() {
  const std::shared_ptr<RegionRpc> stream = id_ == 0 ? nullptr : stream_.lock();
  if (stream != nullptr) stream->Remove(memory_);
  id_ = 0;
  memory_ = {};
  mapping_.reset();
  return stream;
}

absl::StatusOr<std::unique_ptr<RegionSession>> RegionSession::Connect(const std::string& target,
                                                                      const ClientOptions& options) {
  const absl::StatusOr<std::vector<Endpoint>> endpoints = ParseTarget(target, options);
  if (!endpoints.ok()) return endpoints.status();
  if (endpoints->size() > 1 || options.every_address) {
    return absl::InvalidArgumentError("a session is with one server, on this host");
  }
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  std::shared_ptr<grpc::Channel> channel = MakeStreamChannel(endpoints->front(), options);
  std::shared_ptr<RegionRpc> stream = RegionRpc::Open(channel, options.tenant, options.default_timeout);
  return std::unique_ptr<RegionSession>(
      new RegionSession(std::move(channel), std::move(stream), options.default_timeout));
}

RegionSession::~RegionSession() { stream_->End(kGoodbyeTimeout); }

absl::StatusOr<Region> RegionSession::OpenSharedMemory(size_t bytes) {
  v1::AttendInRegionsRequest request;
  request.mutable_open()->mutable_shared_memory()->set_bytes(bytes);
  const absl::StatusOr<v1::AttendInRegionsResponse> answer = stream_->Ask(std::move(request));
  if (!answer.ok()) return answer.status();
  const v1::RegionOpened& opened = answer->opened();
  absl::StatusOr<std::unique_ptr<SharedMapping>> mapping = SharedMapping::Open(opened.path(), opened.name(), bytes);
  if (!mapping.ok()) {
    stream_->Ask(CloseRequest(opened.region())).IgnoreError();
    return mapping.status();
  }
  const absl::Span<std::byte> memory = (*mapping)->memory();
  stream_->Add(opened.region(), memory);
  return Region(stream_, opened.region(), memory, *std::move(mapping));
}

absl::StatusOr<Region> RegionSession::OpenCudaMemory(const CudaAllocation& allocation) {
  v1::AttendInRegionsRequest request;
  v1::CudaMemory& memory = *request.mutable_open()->mutable_cuda_memory();
  memory.set_handle(allocation.handle.data(), allocation.handle.size());
  memory.set_device_uuid(allocation.device_uuid.data(), allocation.device_uuid.size());
  memory.set_used_bytes(allocation.memory.size());
  const absl::StatusOr<v1::AttendInRegionsResponse> answer = stream_->Ask(std::move(request));
  if (!answer.ok()) return answer.status();
  stream_->Add(answer->opened().region(), allocation.memory);
  return Region(stream_, answer->opened().region(), allocation.memory, nullptr);
}

CallHandle RegionSession::AttendAsync(const AttendCall& call, AttendCallback callback) {
  v1::AttendInRegionsRequest request;
  v1::AttendRegions& attend = *request.mutable_attend();
  *attend.mutable_header() = call.header;
  const absl::Duration timeout = call.timeout == absl::ZeroDuration() ? default_timeout_ : call.timeout;
  attend.set_timeout_us(Microseconds(timeout));
  const struct {
    const char* name;
    absl::Span<const std::byte> span;
    v1::RegionTensor* tensor;
  } fields[] = {{"q", call.q, attend.mutable_q()},
                {"k", call.k, attend.mutable_k()},
                {"v", call.v, attend.mutable_v()},
                {"o", call.o, attend.mutable_o()},
                {"lse", call.lse, attend.mutable_lse()}};
  absl::Status status = CheckCall(call);
  if (status.ok() && timeout < absl::ZeroDuration()) status = absl::DeadlineExceededError("the deadline has passed");
  for (const auto& field : fields) {
    if (!status.ok()) break;
    absl::StatusOr<v1::RegionTensor> tensor = stream_->Locate(field.name, field.span);
    status = tensor.status();
    if (tensor.ok()) *field.tensor = *std::move(tensor);
  }
  if (!status.ok()) {
    callback(status);
    return CallHandle();
  }
  const uint64_t id = stream_->NewId();
  auto handle = std::make_shared<RegionCallHandle>(stream_, id);
  stream_->Send(id, std::move(request), timeout + kAnswerGrace,
                [handle, callback = std::move(callback)](absl::StatusOr<v1::AttendInRegionsResponse> answer) {
                  if (!answer.ok()) return callback(answer.status());
                  if (answer->status().code() != 0) return callback(ToAbslStatus(answer->status()));
                  AttendReply reply;
                  reply.result = std::move(*answer->mutable_result());
                  callback(std::move(reply));
                });
  return CallHandle(handle);
}

absl::StatusOr<AttendReply> RegionSession::Attend(const AttendCall& call) {
  absl::StatusOr<AttendReply> reply;
  absl::Notification done;
  AttendAsync(call, [&](absl::StatusOr<AttendReply> end) {
    reply = std::move(end);
    done.Notify();
  });
  done.WaitForNotification();
  return reply;
}

}  // namespace tessera
