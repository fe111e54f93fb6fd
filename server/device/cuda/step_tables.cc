#include "server/device/cuda/step_tables.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/container/flat_hash_map.h"

namespace tessera {
namespace {

// Bytes of the table's part that a step looks into.
size_t TableBytes(const PagedParams& params, const PagedSequence& sequence) {
  return static_cast<size_t>((sequence.kv_len + params.page_tokens - 1) / params.page_tokens) * sizeof(int32_t);
}

}  // namespace

StepTables::StepTables(const PagedParams& params, absl::Span<const ExtendItem> items)
    : scaled_(params.cache_dtype == CacheDType::kFloat8) {
  size_t repeated = 0;
  for (const ExtendItem& item : items) {
    for (const PagedSequence& sequence : item.sequences) repeated += TableBytes(params, sequence);
  }
  struct Table {
    size_t bytes = 0;  // of the longest that begins there
    std::optional<size_t> at;
  };
  absl::flat_hash_map<const int32_t*, Table> tables;  // empty where none are looked for
  if (repeated > kMostRepeatedBytes) {
    for (const ExtendItem& item : items) {
      for (const PagedSequence& sequence : item.sequences) {
        Table& table = tables[sequence.pages.data()];
        table.bytes = std::max(table.bytes, TableBytes(params, sequence));
      }
    }
  }

  const size_t scale_bytes = static_cast<size_t>(params.attention.kv_heads) * sizeof(float);
  const PagedLayer* layer = nullptr;  // of the sequence before
  for (const ExtendItem& item : items) {
    for (const PagedSequence& sequence : item.sequences) {
      const size_t bytes = TableBytes(params, sequence);
      Place place = {};
      place.page_count = bytes / sizeof(int32_t);
      if (tables.empty()) {
        place.pages_at = Add(sequence.pages.data(), bytes);
      } else {
        Table& table = tables.find(sequence.pages.data())->second;
        if (!table.at.has_value()) table.at = Add(sequence.pages.data(), table.bytes);
        place.pages_at = *table.at;
      }
      if (scaled_) {
        const bool same = layer != nullptr && layer->k_scales == sequence.layer.k_scales &&
                          layer->v_scales == sequence.layer.v_scales;
        place.k_scales_at = same ? places_.back().k_scales_at : Add(sequence.layer.k_scales, scale_bytes);
        place.v_scales_at = same ? places_.back().v_scales_at : Add(sequence.layer.v_scales, scale_bytes);
        layer = &sequence.layer;
      }
      places_.push_back(place);
    }
  }
}

size_t StepTables::Add(const void* from, size_t bytes) {
  const size_t at = bytes_;
  if (bytes > 0) pieces_.push_back({from, bytes, at});
  bytes_ += bytes;
  return at;
}

void StepTables::WriteTo(std::byte* memory) const {
  for (const Piece& piece : pieces_) std::memcpy(memory + piece.at, piece.from, piece.bytes);
}

PagedSequence StepTables::View(size_t i, const PagedSequence& sequence, const std::byte* memory) const {
  const Place& place = places_[i];
  PagedSequence view = sequence;
  view.pages = {reinterpret_cast<const int32_t*>(memory + place.pages_at), place.page_count};
  if (scaled_) {
    view.layer.k_scales = reinterpret_cast<const float*>(memory + place.k_scales_at);
    view.layer.v_scales = reinterpret_cast<const float*>(memory + place.v_scales_at);
  }
  return view;
}

}  // namespace tessera
