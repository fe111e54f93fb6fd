#include "client/cpp/load/payload_pool.h"

#include <random>

#include "absl/random/gaussian_distribution.h"

namespace tessera::load {

PayloadPool::PayloadPool(absl::Span<const CallShape> shapes, int per_shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  absl::gaussian_distribution<float> normal;
  for (const CallShape& shape : shapes) {
    Entry entry;
    entry.q_bytes = static_cast<size_t>(shape.q_bytes());
    entry.kv_bytes = static_cast<size_t>(shape.kv_bytes());
    const size_t elements = static_cast<size_t>(shape.request_bytes() / ElementBytes(shape.dtype));
    for (int i = 0; i < per_shape; ++i) {
      std::vector<std::byte>& block = entry.blocks.emplace_back(static_cast<size_t>(shape.request_bytes()));
      for (size_t j = 0; j < elements; ++j) StoreElement(shape.dtype, normal(random), j, absl::MakeSpan(block));
    }
    entries_.push_back(std::move(entry));
  }
}

Payload PayloadPool::Get(size_t shape, uint64_t ordinal) const {
  const Entry& entry = entries_[shape];
  const absl::Span<const std::byte> block = entry.blocks[ordinal % entry.blocks.size()];
  return {block.subspan(0, entry.q_bytes), block.subspan(entry.q_bytes, entry.kv_bytes),
          block.subspan(entry.q_bytes + entry.kv_bytes)};
}

int64_t PayloadPool::bytes() const {
  size_t total = 0;
  for (const Entry& entry : entries_) {
    for (const std::vector<std::byte>& block : entry.blocks) total += block.size();
  }
  return static_cast<int64_t>(total);
}

}  // namespace tessera::load
