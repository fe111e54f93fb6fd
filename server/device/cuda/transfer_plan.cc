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
};

// Lays the buffers out from `*end` on, neighbours as one piece.
std::vector<TransferPlan::Piece> LayOut(std::vector<Traveller> travellers, size_t* end) {
  std::sort(travellers.begin(), travellers.end(),
            [](const Traveller& a, const Traveller& b) { return a.host < b.host; });
  std::vector<TransferPlan::Piece> pieces;
  for (const Traveller& traveller : travellers) {
    const bool neighbour = !pieces.empty() && pieces.back().host + RoundUp(pieces.back().bytes) == traveller.host;
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

// `pointer` into a buffer at `from`, moved to where that buffer lies at `to`. Null, of an empty tensor, stays null.
template <typename T>
T* Moved(T* pointer, const std::byte* from, std::byte* to) {
  if (pointer == nullptr) return nullptr;
  return reinterpret_cast<T*>(to + (reinterpret_cast<const std::byte*>(pointer) - from));
}

}  // namespace

TransferPlan::TransferPlan(absl::Span<const BatchItem> items) : items_(items), places_(items.size()) {
  std::vector<Traveller> inputs, outputs;
  for (size_t i = 0; i < items.size(); ++i) {
    const BatchItem& item = items[i];
    if (!item.input.empty()) {
      inputs.push_back({const_cast<std::byte*>(item.input.data()), item.input.size(), &places_[i].input});
    }
    if (!item.output.empty()) outputs.push_back({item.output.data(), item.output.size(), &places_[i].output});
  }
  inputs_ = LayOut(std::move(inputs), &device_bytes_);
  outputs_ = LayOut(std::move(outputs), &device_bytes_);
}

std::vector<SequenceView> TransferPlan::Views(std::byte* block) const {
  std::vector<SequenceView> views;
  for (size_t i = 0; i < items_.size(); ++i) {
    const BatchItem& item = items_[i];
    const Place& place = places_[i];
    const size_t first = views.size();
    views.insert(views.end(), item.sequences.begin(), item.sequences.end());
    for (SequenceView& view : absl::MakeSpan(views).subspan(first)) {
      view.q = Moved(view.q, item.input.data(), block + place.input);
      view.k = Moved(view.k, item.input.data(), block + place.input);
      view.v = Moved(view.v, item.input.data(), block + place.input);
      view.o = Moved(view.o, item.output.data(), block + place.output);
      view.lse = Moved(view.lse, item.output.data(), block + place.output);
    }
  }
  return views;
}

}  // namespace tessera
