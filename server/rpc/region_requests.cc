// What the messages of a RegionStream ask for, and how that is answered.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/wire/slice_reader.h"
#include "server/rpc/attend_header.h"
#include "server/rpc/caller.h"
#include "server/rpc/region_stream.h"
#include "server/rpc/status.h"
#include "tessera/v1/region.grpc.pb.h"  // how gRPC serializes the messages

namespace tessera {
namespace {

// Messages have no payload: as much as the small fields of other calls may take.
constexpr size_t kMostMessageBytes = wire::SliceReader::kMaxSubmessageBytes;

absl::StatusOr<v1::AttendInRegionsRequest> Parse(grpc::ByteBuffer* bytes) {
  if (bytes->Length() > kMostMessageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the message has ", bytes->Length(), " bytes, the limit is ", kMostMessageBytes));
  }
  v1::AttendInRegionsRequest message;
  if (!grpc::SerializationTraits<v1::AttendInRegionsRequest>::Deserialize(bytes, &message).ok()) {
    return absl::InvalidArgumentError("the message does not parse");
  }
  return message;
}

template <typename Array>
absl::StatusOr<Array> ToArray(absl::string_view field, const std::string& bytes) {
  Array array;
  if (bytes.size() != array.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cuda_memory.", field, ": ", bytes.size(), " bytes, it has ", array.size()));
  }
  std::memcpy(array.data(), bytes.data(), array.size());
  return array;
}

}  // namespace

absl::Status RegionStream::HandleMessage(grpc::ByteBuffer* incoming) {
  const auto bytes = static_cast<int64_t>(incoming->Length());
  const absl::StatusOr<v1::AttendInRegionsRequest> message = Parse(incoming);
  if (!message.ok()) return message.status();
  const uint64_t id = message->id();
  switch (message->request_case()) {
    case v1::AttendInRegionsRequest::kOpen:
      Open(id, message->open());
      break;
    case v1::AttendInRegionsRequest::kClose:
      Close(id, message->close());
      break;
    case v1::AttendInRegionsRequest::kAttend:
      Attend(id, message->attend(), bytes);
      break;
    case v1::AttendInRegionsRequest::kCancel: {
      std::shared_ptr<RegionCall> call;
      {
        absl::MutexLock lock(&mutex_);
        if (const auto found = calls_.find(id); found != calls_.end()) call = found->second;
      }
      if (call != nullptr && message->cancel()) call->End(absl::CancelledError("the caller cancelled"));
      break;
    }
    case v1::AttendInRegionsRequest::REQUEST_NOT_SET:
      Refuse(id, absl::InvalidArgumentError("request: missing"));
      break;
  }
  return absl::OkStatus();
}

void RegionStream::Open(uint64_t id, const v1::OpenRegion& request) {
  if (!local_) {
    return Refuse(id,
                  absl::PermissionDeniedError("open: only callers on the server's own host may open regions, over a "
                                              "loopback address or a Unix socket"));
  }
  const uint64_t region = ++last_region_;
  {
    absl::MutexLock lock(&mutex_);
    ++opening_;
  }
  const auto opened = [self = Self(), id, region](absl::StatusOr<RegionHost::Opened> result) {
    self->OnOpened(id, region, std::move(result));
  };
  const auto gone = [weak = std::weak_ptr(Self()), region] {
    if (const std::shared_ptr<RegionStream> stream = weak.lock()) stream->OnGone(region);
  };
  if (request.has_shared_memory()) {
    return host_->OpenSharedMemory(tenant().name(), request.shared_memory().bytes(), opened, gone);
  }
  if (!request.has_cuda_memory()) return opened(absl::InvalidArgumentError("open.memory: missing"));
  const auto handle = ToArray<CudaIpcHandle>("handle", request.cuda_memory().handle());
  const auto device = ToArray<DeviceUuid>("device_uuid", request.cuda_memory().device_uuid());
  if (!handle.ok()) return opened(handle.status());
  if (!device.ok()) return opened(device.status());
  host_->OpenCudaMemory(tenant().name(), *handle, *device, request.cuda_memory().used_bytes(), opened, gone);
}

void RegionStream::OnOpened(uint64_t id, uint64_t region, absl::StatusOr<RegionHost::Opened> opened) {
  if (!opened.ok()) Refuse(id, WithReason(opened.status(), RejectReason::kRegions));
  {
    absl::MutexLock lock(&mutex_);
    --opening_;
    if (opened.ok()) ++held_;
    if (opened.ok() && !over()) {
      Answer answer;
      answer.message.set_id(id);
      *answer.message.mutable_status() = ToCallStatus(absl::OkStatus(), absl::ZeroDuration());
      v1::RegionOpened& description = *answer.message.mutable_opened();
      description.set_region(region);
      description.set_bytes(opened->region->memory().size());
      description.set_path(opened->path);
      description.set_name(opened->name);
      regions_.emplace(region, std::move(opened->region));
      outbox_.push_back(std::move(answer));
    }
  }
  Advance();
}

void RegionStream::Close(uint64_t id, const v1::CloseRegion& request) {
  std::shared_ptr<MemoryRegion> region;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = regions_.find(request.region());
    if (found != regions_.end()) {
      region = std::move(found->second);
      regions_.erase(found);
      closing_.emplace(request.region(), id);
    }
  }
  if (region == nullptr) Refuse(id, absl::NotFoundError("close.region: no such region"));
}

void RegionStream::OnGone(uint64_t region) {
  {
    absl::MutexLock lock(&mutex_);
    --held_;
    if (const auto closing = closing_.find(region); closing != closing_.end()) {
      Answer answer;
      answer.message.set_id(closing->second);
      *answer.message.mutable_status() = ToCallStatus(absl::OkStatus(), absl::ZeroDuration());
      closing_.erase(closing);
      if (!over()) outbox_.push_back(std::move(answer));
    }
  }
  Advance();
}

void RegionStream::Attend(uint64_t id, const v1::AttendRegions& request, int64_t message_bytes) {
  std::shared_ptr<RegionCall> same;
  size_t open_calls;
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = calls_.find(id); found != calls_.end()) same = found->second;
    open_calls = calls_.size();
  }
  if (same != nullptr) {
    return same->End(absl::InvalidArgumentError(absl::StrCat("id: ", id, " names a call that is open")));
  }
  if (const absl::Status status = MayOpen(open_calls); !status.ok()) return Refuse(id, status);
  const absl::StatusOr<ByteBudget::Charge> charge =
      environment_.admission->AdmitMessage(tenant().name(), message_bytes);
  if (!charge.ok()) return Refuse(id, charge.status());
  const absl::StatusOr<std::shared_ptr<RegionCall>> call = MakeCall(id, request, message_bytes);
  if (!call.ok()) return Refuse(id, call.status());
  absl::Status end;
  {
    absl::MutexLock lock(&mutex_);
    calls_.emplace(id, *call);
    end = calls_end();
  }
  // From here on the call may end, and be answered, at any time.
  if (!end.ok()) (*call)->End(end);
  (*call)->Enqueue();
}

absl::StatusOr<std::shared_ptr<RegionCall>> RegionStream::MakeCall(uint64_t id, const v1::AttendRegions& request,
                                                                   int64_t message_bytes) {
  if (!request.has_header()) return absl::InvalidArgumentError("attend.header: missing");
  RegionCall::Opening opening;
  absl::StatusOr<AttendSpec> spec = ToAttendSpec(request.header(), environment_.limits.request);
  if (!spec.ok()) return spec.status();
  absl::StatusOr<ResolvedTensors> tensors;
  {
    absl::MutexLock lock(&mutex_);
    tensors = ResolveTensors(request, spec->shape, regions_);
  }
  if (!tensors.ok()) return tensors.status();
  for (const std::shared_ptr<MemoryRegion>& region : tensors->regions) region->HidePath();
  opening.spec = *std::move(spec);
  opening.tensors = *std::move(tensors);
  opening.tenant = tenant().name();
  opening.received = environment_.clock->Now();
  opening.deadline =
      std::min(DeadlineOf(context(), *environment_.clock), opening.received + ToTimeout(request.timeout_us()));
  opening.message_bytes = message_bytes;
  return RegionCall::Create(
      environment_, std::move(opening),
      [self = Self(), id](const std::shared_ptr<RegionCall>& call, const RegionCall::Ending& ending) {
        self->OnCallAnswered(id, call, ending);
      });
}

void RegionStream::OnCallAnswered(uint64_t id, const std::shared_ptr<RegionCall>& call,
                                  const RegionCall::Ending& ending) {
  Answer answer;
  answer.message = Response(id, ending.status);
  if (ending.status.ok()) {
    *answer.message.mutable_result() = ending.result;
    answer.call = call;
    answer.finished = ending.finished;
  }
  Push(std::move(answer), id);
}

}  // namespace tessera
