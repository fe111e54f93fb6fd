#include "client/cpp/tessera/region_rpc.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/cpp/tessera/status_conversion.h"

namespace tessera {

std::shared_ptr<RegionRpc> RegionRpc::Open(const std::shared_ptr<grpc::Channel>& channel, const std::string& tenant,
                                           absl::Duration patience) {
  std::shared_ptr<RegionRpc> stream(new RegionRpc(tenant, patience));
  v1::RegionService::NewStub(channel)->async()->AttendInRegions(stream->context(), stream.get());
  stream->Begin(stream);
  return stream;
}

void RegionRpc::Send(uint64_t id, v1::AttendInRegionsRequest request, absl::Duration patience, AnswerFn answer) {
  request.set_id(id);
  absl::Status lost;
  {
    absl::MutexLock lock(&mutex_);
    if (Push(&request)) {
      Waiting& waiting = waiting_[id];
      waiting.answer = std::move(answer);
      if (patience < absl::InfiniteDuration()) {
        waiting.timer = timers_->Schedule(absl::Now() + patience, [this, id] { Expire(id); });
      }
    } else {
      lost = lost_.ok() ? absl::UnavailableError("the session has ended") : lost_;
    }
  }
  if (!lost.ok()) return answer(lost);
  Flush();
}

absl::StatusOr<v1::AttendInRegionsResponse> RegionRpc::Ask(v1::AttendInRegionsRequest request) {
  absl::StatusOr<v1::AttendInRegionsResponse> answer;
  absl::Notification done;
  Send(NewId(), std::move(request), patience_, [&](absl::StatusOr<v1::AttendInRegionsResponse> result) {
    answer = std::move(result);
    done.Notify();
  });
  done.WaitForNotification();
  if (answer.ok() && answer->status().code() != 0) return ToAbslStatus(answer->status());
  return answer;
}

void RegionRpc::SendClose(uint64_t region) {
  v1::AttendInRegionsRequest request;
  request.mutable_close()->set_region(region);
  Send(NewId(), std::move(request), absl::InfiniteDuration(),
       [](const absl::StatusOr<v1::AttendInRegionsResponse>& /*answer*/) {});
}

void RegionRpc::Expire(uint64_t id) {
  AnswerFn answer;
  {
    absl::MutexLock lock(&mutex_);
    const auto place = waiting_.find(id);
    if (place == waiting_.end()) return;
    answer = std::exchange(place->second.answer, nullptr);
  }
  answer(absl::DeadlineExceededError("the server has not answered, and may still use what it was asked to use"));
}

void RegionRpc::CancelCall(uint64_t id) {
  {
    absl::MutexLock lock(&mutex_);
    if (!waiting_.contains(id)) return;
    v1::AttendInRegionsRequest request;
    request.set_id(id);
    request.set_cancel(true);
    Push(&request);  // where it fails, the end of the stream takes the call with it
  }
  Flush();
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

bool RegionRpc::OnMessage(v1::AttendInRegionsResponse* message) {
  AnswerFn answer;
  {
    absl::MutexLock lock(&mutex_);
    const auto place = waiting_.find(message->id());
    if (place != waiting_.end()) {
      answer = std::move(place->second.answer);
      if (place->second.timer.has_value()) timers_->Cancel(*place->second.timer);
      waiting_.erase(place);
    }
  }
  if (answer != nullptr) {
    answer(std::move(*message));
  } else if (message->has_opened()) {
    SendClose(message->opened().region());
  }
  return true;
}

void RegionRpc::OnEnd(const grpc::Status& status) {
  const absl::Status lost =
      status.ok() ? absl::UnavailableError("the session has ended") : UnavailableIfCancelled(ToAbslStatus(status));
  absl::flat_hash_map<uint64_t, Waiting> waiting;
  {
    absl::MutexLock lock(&mutex_);
    lost_ = lost;
    waiting.swap(waiting_);
  }
  for (auto& [id, one] : waiting) {
    if (one.answer != nullptr) one.answer(lost);
  }
}

void RegionRpc::End(absl::Duration patience) {
  Close(absl::Now() + patience);
  std::unique_ptr<TimerQueue> timers;
  {
    absl::MutexLock lock(&mutex_);
    timers.swap(timers_);
  }
  timers.reset();  // waits for an answer that its thread is giving
}

}  // namespace tessera
