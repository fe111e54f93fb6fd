#include "client/cpp/tessera/region_rpc.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/tessera/status_conversion.h"

namespace tessera {

std::shared_ptr<RegionRpc> RegionRpc::Open(const std::shared_ptr<grpc::Channel>& channel, const std::string& tenant) {
  std::shared_ptr<RegionRpc> stream(new RegionRpc());
  stream->self_ = stream;
  if (!tenant.empty()) stream->context_.AddMetadata("tessera-tenant", tenant);
  v1::RegionService::NewStub(channel)->async()->AttendInRegions(&stream->context_, stream.get());
  // Writes start on other threads than the reactor's; the hold keeps OnDone away until there can be no more of them.
  stream->AddHold();
  stream->StartRead(&stream->incoming_);
  stream->StartCall();
  return stream;
}

void RegionRpc::Send(uint64_t id, v1::AttendInRegionsRequest request, AnswerFn answer) {
  absl::Status lost;
  {
    absl::MutexLock lock(&mutex_);
    lost = lost_;
    if (stopped_ || closing_) lost.Update(absl::UnavailableError("the session has ended"));
    if (lost.ok()) {
      request.set_id(id);
      waiting_.emplace(id, std::move(answer));
      outbox_.push_back(std::move(request));
      Write();
    }
  }
  if (!lost.ok()) answer(lost);
}

absl::StatusOr<v1::AttendInRegionsResponse> RegionRpc::Ask(v1::AttendInRegionsRequest request) {
  absl::StatusOr<v1::AttendInRegionsResponse> answer;
  absl::Notification done;
  Send(NewId(), std::move(request), [&](absl::StatusOr<v1::AttendInRegionsResponse> result) {
    answer = std::move(result);
    done.Notify();
  });
  done.WaitForNotification();
  if (answer.ok() && answer->status().code() != 0) return ToAbslStatus(answer->status());
  return answer;
}

void RegionRpc::CancelCall(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  if (stopped_ || closing_ || !waiting_.contains(id)) return;
  v1::AttendInRegionsRequest request;
  request.set_id(id);
  request.set_cancel(true);
  outbox_.push_back(std::move(request));
  Write();
}

void RegionRpc::Add(uint64_t region, absl::Span<std::byte> memory) {
  absl::MutexLock lock(&mutex_);
  memories_[memory.data()] = {memory.size(), region};
}

void RegionRpc::Remove(absl::Span<std::byte> memory) {
  absl::MutexLock lock(&mutex_);
  memories_.erase(memory.data());
}

absl::StatusOr<v1::RegionTensor> RegionRpc::Locate(const char* field, absl::Span<const std::byte> span) {
  v1::RegionTensor tensor;
  if (span.empty()) return tensor;
  absl::MutexLock lock(&mutex_);
  auto memory = memories_.upper_bound(span.data());
  if (memory != memories_.begin()) {
    --memory;
    const auto offset = static_cast<size_t>(span.data() - memory->first);
    if (offset <= memory->second.bytes && span.size() <= memory->second.bytes - offset) {
      tensor.set_region(memory->second.region);
      tensor.set_offset(offset);
      tensor.set_bytes(span.size());
      return tensor;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(field, ": not in one region of the session"));
}

void RegionRpc::Write() {
  if (writing_ || stopped_ || half_closed_) return;
  if (!outbox_.empty()) {
    outgoing_ = std::move(outbox_.front());
    outbox_.pop_front();
    writing_ = true;
    StartWrite(&outgoing_);
  } else if (closing_) {
    half_closed_ = writing_ = true;
    StartWritesDone();
  }
}

void RegionRpc::OnReadDone(bool ok) {
  if (!ok) return StopOperations();
  AnswerFn answer;
  {
    absl::MutexLock lock(&mutex_);
    const auto place = waiting_.find(incoming_.id());
    if (place != waiting_.end()) {
      answer = std::move(place->second);
      waiting_.erase(place);
    }
  }
  if (answer != nullptr) answer(std::move(incoming_));
  incoming_.Clear();
  StartRead(&incoming_);
}

void RegionRpc::OnWriteDone(bool ok) {
  bool stopped;
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    stopped = stopped_;
    // Otherwise the stream is broken, and the read that is going on will say so.
    if (ok) Write();
  }
  if (stopped) StopOperations();
}

void RegionRpc::OnWritesDoneDone(bool ok) { OnWriteDone(ok); }

void RegionRpc::StopOperations() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    if (writing_ || hold_removed_) return;
    hold_removed_ = true;
  }
  RemoveHold();
}

void RegionRpc::OnDone(const grpc::Status& status) {
  const absl::Status lost =
      status.ok() ? absl::UnavailableError("the session has ended") : UnavailableIfCancelled(ToAbslStatus(status));
  absl::flat_hash_map<uint64_t, AnswerFn> waiting;
  {
    absl::MutexLock lock(&mutex_);
    lost_ = lost;
    waiting.swap(waiting_);
  }
  for (auto& [id, answer] : waiting) answer(lost);
  waiting.clear();
  const std::shared_ptr<absl::Notification> ended = ended_;
  self_.reset();
  ended->Notify();
}

void RegionRpc::Close(absl::Duration patience) {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    Write();
  }
  if (!ended_->WaitForNotificationWithTimeout(patience)) context_.TryCancel();
  ended_->WaitForNotification();
}

}  // namespace tessera
