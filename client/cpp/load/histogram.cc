#include "client/cpp/load/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tessera::load {
namespace {

constexpr int kExactBits = std::countr_zero(static_cast<uint64_t>(Histogram::kExactBelow));

// Values of the same `shift` share a bucket width of 2^shift.
size_t BucketOf(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  const int shift = std::max(static_cast<int>(std::bit_width(bits)) - kExactBits, 0);
  return (static_cast<size_t>(shift) << (kExactBits - 1)) + static_cast<size_t>(bits >> shift);
}

// The largest value of a bucket; inverts BucketOf.
int64_t UpperEdge(size_t bucket) {
  if (bucket < static_cast<size_t>(Histogram::kExactBelow)) return static_cast<int64_t>(bucket);
  const int shift = static_cast<int>(bucket >> (kExactBits - 1)) - 1;
  const uint64_t leading = bucket - (static_cast<size_t>(shift) << (kExactBits - 1));
  return static_cast<int64_t>(((leading + 1) << shift) - 1);
}

}  // namespace

void Histogram::Record(int64_t value) {
  value = std::max<int64_t>(value, 0);
  const size_t bucket = BucketOf(value);
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  ++buckets_[bucket];
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value);
  ++count_;
}

void Histogram::Merge(const Histogram& other) {
  if (other.count_ == 0) return;
  if (other.buckets_.size() > buckets_.size()) buckets_.resize(other.buckets_.size());
  for (size_t i = 0; i < other.buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  count_ += other.count_;
}

void Histogram::Clear() {
  std::fill(buckets_.begin(), buckets_.end(), 0);
  count_ = min_ = max_ = 0;
  sum_ = 0;
}

int64_t Histogram::Percentile(double percentile) const {
  if (count_ == 0) return 0;
  // The product rounds: 99.9 % of 1000 must be 999, not 1000.
  const double exact = percentile / 100.0 * static_cast<double>(count_);
  const auto rank = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(exact - 1e-6)), 1, count_);
  int64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::min(UpperEdge(i), max_);
  }
  return max_;
}

int64_t Histogram::CountAbove(int64_t value) const {
  int64_t above = 0;
  for (size_t i = BucketOf(std::max<int64_t>(value, 0)) + 1; i < buckets_.size(); ++i) above += buckets_[i];
  return above;
}

}  // namespace tessera::load
