#include "client/cpp/tessera/request_payload.h"

#include <algorithm>
#include <utility>

#include "proto/wire/attend_encode.h"

namespace tessera {

RequestPayload::RequestPayload(absl::Span<const std::byte> q, absl::Span<const std::byte> k,
                               absl::Span<const std::byte> v)
    : tensors_{q, k, v},
      size_(static_cast<int64_t>(q.size() + k.size() + v.size())),
      hold_(aliases() ? std::make_shared<Hold>(std::make_shared<Gate>()) : nullptr) {}

std::vector<grpc::Slice> RequestPayload::Slices(int64_t offset, int64_t length) const {
  std::vector<grpc::Slice> slices;
  for (const absl::Span<const std::byte>& tensor : tensors_) {
    const int64_t tensor_size = static_cast<int64_t>(tensor.size());
    if (offset >= tensor_size) {
      offset -= tensor_size;
      continue;
    }
    const absl::Span<const std::byte> part =
        tensor.subspan(static_cast<size_t>(offset), static_cast<size_t>(std::min(length, tensor_size - offset)));
    if (part.empty()) break;
    slices.push_back(hold_ == nullptr ? grpc::Slice(part.data(), part.size()) : wire::AliasSlice(part, hold_));
    offset = 0;
    length -= static_cast<int64_t>(part.size());
  }
  return slices;
}

void RequestPayload::Release(std::function<void()> released, TimerQueue* timers) {
  if (hold_ == nullptr) {
    released();
    return;
  }
  const std::shared_ptr<Gate> gate = hold_->gate;
  gate->released = std::move(released);
  gate->timers = timers;
  hold_.reset();
  if (gate->Pass()) std::exchange(gate->released, nullptr)();
}

}  // namespace tessera
