#include "server/device/cuda/extend_plan.h"

#include <algorithm>

namespace tessera {
namespace {

void Append(absl::Span<const MemoryCopy> copies, std::vector<CudaCopy>* pieces) {
  for (const MemoryCopy& copy : copies) pieces->push_back({copy.to, copy.from, copy.bytes});
}

}  // namespace

ExtendPlan::ExtendPlan(absl::Span<const ExtendItem> items, const StepTables& tables,
                       absl::Span<const std::byte> side_memory)
    : items_(items), tables_(tables), buffers_(BuffersOf(items, side_memory)), transfers_(buffers_) {}

std::vector<BatchItem> ExtendPlan::BuffersOf(absl::Span<const ExtendItem> items,
                                             absl::Span<const std::byte> side_memory) {
  std::vector<BatchItem> buffers;
  buffers.reserve(items.size() + 1);
  for (const ExtendItem& item : items) buffers.push_back({.input = item.input, .output = item.output, .sequences = {}});
  buffers.push_back({.input = side_memory, .output = {}, .sequences = {}});
  return buffers;
}

std::vector<CudaCopy> ExtendPlan::Fills() const {
  std::vector<CudaCopy> fills;
  for (const ExtendItem& item : items_) {
    for (const MemoryFill& fill : item.fills) fills.push_back({.to = fill.at, .from = nullptr, .bytes = fill.bytes});
  }
  return fills;
}

std::vector<CudaCopy> ExtendPlan::PagesFromHost() const {
  std::vector<CudaCopy> pieces;
  for (const ExtendItem& item : items_) Append(item.from_host, &pieces);
  return pieces;
}

std::vector<CudaCopy> ExtendPlan::PagesToHost() const {
  std::vector<CudaCopy> pieces;
  for (const ExtendItem& item : items_) Append(item.to_host, &pieces);
  return pieces;
}

std::vector<CudaCopy> ExtendPlan::CopiesAndInputs(std::byte* block) const {
  std::vector<CudaCopy> pieces;
  for (const ExtendItem& item : items_) Append(item.copies, &pieces);
  for (const TransferPlan::Piece& piece : transfers_.inputs()) {
    pieces.push_back({.to = block + piece.offset, .from = piece.host, .bytes = piece.bytes});
  }
  return pieces;
}

std::vector<CudaCopy> ExtendPlan::Outputs(std::byte* block) const {
  std::vector<CudaCopy> pieces;
  for (const TransferPlan::Piece& piece : transfers_.outputs()) {
    pieces.push_back({.to = piece.host, .from = block + piece.offset, .bytes = piece.bytes});
  }
  return pieces;
}

bool ExtendPlan::copies_in() const {
  return !transfers_.inputs().empty() || std::any_of(items_.begin(), items_.end(), [](const ExtendItem& item) {
    return !item.fills.empty() || !item.copies.empty() || !item.from_host.empty();
  });
}

bool ExtendPlan::copies_out() const {
  return !transfers_.outputs().empty() ||
         std::any_of(items_.begin(), items_.end(), [](const ExtendItem& item) { return !item.to_host.empty(); });
}

std::vector<PagedSequence> ExtendPlan::Views(std::byte* block) const {
  const std::byte* const side_memory = transfers_.Moved(items_.size(), buffers_.back().input.data(), block);
  std::vector<PagedSequence> views;
  for (size_t i = 0; i < items_.size(); ++i) {
    for (const PagedSequence& sequence : items_[i].sequences) {
      PagedSequence view = tables_.View(views.size(), sequence, side_memory);
      view.q = transfers_.Moved(i, view.q, block);
      view.k = transfers_.Moved(i, view.k, block);
      view.v = transfers_.Moved(i, view.v, block);
      view.o = transfers_.Moved(i, view.o, block);
      view.lse = transfers_.Moved(i, view.lse, block);
      views.push_back(view);
    }
  }
  return views;
}

}  // namespace tessera
