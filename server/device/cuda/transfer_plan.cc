#include "server/device/cuda/transfer_plan.h"

#include <algorithm>

#include "server/memory/staging_pool.h"

namespace tessera {
namespace {

constexpr size_t kAlignment = StagingPool::kAlignment;

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// A buffer that travels, and where its offset is to be noted.
struct Traveller {
  std::byte* host;
  size_t bytes;
  size_t* offset;
  bool padded;  // what follows it up to the next multiple of kAlignment is its own
};

// Lays the buffers out from `*end` on, neighbours as one piece.
std::vector<TransferPlan::Piece> LayOut(std::vector<Traveller> travellers, size_t* end) {
  std::sort(travellers.begin(), travellers.end(),
            [](const Traveller& a, const Traveller& b) { return a.host < b.host; });
  std::vector<TransferPlan::Piece> pieces;
  bool padded = false;  // the last piece's last traveller
  for (const Traveller& traveller : travellers) {
    const bool neighbour = !pieces.empty() && pieces.back().host + RoundUp(pieces.back().bytes) == traveller.host &&
                           (padded || pieces.back().bytes % kAlignment == 0);
    padded = traveller.padded;
    *traveller.offset = *end;
    if (neighbour) {
      pieces.back().bytes = RoundUp(pieces.back().bytes) + traveller.bytes;
    } else {
      pieces.push_back({.host = traveller.host, .offset = *end, .bytes = traveller.bytes});
    }
    *end += RoundUp(traveller.bytes);
  }
  return pieces;
}

}  // namespace

TransferPlan::TransferPlan(absl::Span<const BatchItem> items) : items_(items), places_(items.size()) {
  size_t tensors = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    places_[i].first_tensor = tensors;
    tensors += items[i].tensors.size();
  }
  tensor_places_.resize(tensors);
  std::vector<Traveller> inputs, outputs;
  for (size_t i = 0; i < items.size(); ++i) {
    const BatchItem& item = items[i];
    Place& place = places_[i];
    if (!item.input.empty()) {
      inputs.push_back({const_cast<std::byte*>(item.input.data()), item.input.size(), &place.input, true});
    }
    if (!item.output.empty()) outputs.push_back({item.output.data(), item.output.size(), &place.output, true});
    for (size_t j = 0; j < item.tensors.size(); ++j) {
      const HostTensor& tensor = item.tensors[j];
      if (tensor.bytes == 0) continue;
      (tensor.output ? outputs : inputs)
          .push_back({tensor.data, tensor.bytes, &tensor_places_[place.first_tensor + j], false});
    }
  }
  inputs_ = LayOut(std::move(inputs), &device_bytes_);
  outputs_ = LayOut(std::move(outputs), &device_bytes_);
}

const void* TransferPlan::MovedAddress(size_t item, const void* address, std::byte* block) const {
  const BatchItem& from = items_[item];
  const Place& place = places_[item];
  const auto* const at = static_cast<const std::byte*>(address);
  // Where it lies `bytes` from `data` on. One past the end is the pointer of an empty tensor; it may go anywhere.
  const auto moved = [at, block](const std::byte* data, size_t bytes, size_t offset) -> const void* {
    const bool inside = at != nullptr && at >= data && at < data + bytes;
    return inside ? block + offset + (at - data) : nullptr;
  };
  if (const void* const there = moved(from.input.data(), from.input.size(), place.input)) return there;
  if (const void* const there = moved(from.output.data(), from.output.size(), place.output)) return there;
  for (size_t i = 0; i < from.tensors.size(); ++i) {
    const HostTensor& tensor = from.tensors[i];
    const size_t offset = tensor_places_[place.first_tensor + i];
    if (const void* const there = moved(tensor.data, tensor.bytes, offset)) return there;
  }
  return address;
}

std::vector<SequenceView> TransferPlan::Views(std::byte* block) const {
  std::vector<SequenceView> views;
  for (size_t i = 0; i < items_.size(); ++i) {
    const BatchItem& item = items_[i];
    const size_t first = views.size();
    views.insert(views.end(), item.sequences.begin(), item.sequences.end());
    for (SequenceView& view : absl::MakeSpan(views).subspan(first)) {
      view.q = Moved(i, view.q, block);
      view.k = Moved(i, view.k, block);
      view.v = Moved(i, view.v, block);
      view.o = Moved(i, view.o, block);
      view.lse = Moved(i, view.lse, block);
    }
  }
  return views;
}

}  // namespace tessera
