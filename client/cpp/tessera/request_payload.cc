#include "client/cpp/tessera/request_payload.h"

#include <algorithm>
#include <utility>

#include "proto/wire/attend_encode.h"

namespace tessera {
namespace {

int64_t TotalBytes(const RequestPayload::Tensors& tensors) {
  size_t total = 0;
  for (const absl::Span<const std::byte>& tensor : tensors) total += tensor.size();
  return static_cast<int64_t>(total);
}

}  // namespace

RequestPayload::RequestPayload(Tensors tensors)
    : tensors_(std::move(tensors)),
      size_(TotalBytes(tensors_)),
      hold_(aliases() ? std::make_shared<Hold>(std::make_shared<Gate>()) : nullptr) {}

std::vector<grpc::Slice> RequestPayload::Slices(int64_t offset, int64_t length) const {
  std::vector<grpc::Slice> slices;
  if (length == 0) return slices;
  std::byte* copy = nullptr;
  if (hold_ == nullptr) {
    slices.emplace_back(static_cast<size_t>(length));
    copy = reinterpret_cast<std::byte*>(const_cast<uint8_t*>(slices.front().begin()));  // nobody else has it yet
  }
  for (const absl::Span<const std::byte>& tensor : tensors_) {
    const int64_t tensor_size = static_cast<int64_t>(tensor.size());
    if (offset >= tensor_size) {
      offset -= tensor_size;
      continue;
    }
    const absl::Span<const std::byte> part =
        tensor.subspan(static_cast<size_t>(offset), static_cast<size_t>(std::min(length, tensor_size - offset)));
    if (part.empty()) break;
    if (copy == nullptr) {
      slices.push_back(wire::AliasSlice(part, hold_));
    } else {
      copy = std::copy(part.begin(), part.end(), copy);
    }
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
