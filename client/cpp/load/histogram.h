// A log-linear histogram in the manner of HDR: any 63-bit value, constant relative error, no samples kept.
#ifndef TESSERA_CLIENT_CPP_LOAD_HISTOGRAM_H_
#define TESSERA_CLIENT_CPP_LOAD_HISTOGRAM_H_

#include <cstdint>
#include <vector>

namespace tessera::load {

// Values under kExactBelow have a bucket each. Above, every power of two is cut into kExactBelow / 2 buckets, so a
// bucket's width is at most 1/1024 of its values. Minimum, maximum and mean are exact. Memory grows with the
// largest value: 8 KiB for each power of two above kExactBelow. Not thread-safe.
class Histogram {
 public:
  static constexpr int64_t kExactBelow = 2048;

  // Negative values count as 0.
  void Record(int64_t value);
  void Merge(const Histogram& other);
  void Clear();

  int64_t count() const { return count_; }
  int64_t min() const { return count_ == 0 ? 0 : min_; }
  int64_t max() const { return max_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

  // The least value that at least `percentile` percent of all recorded values do not exceed, rounded up within its
  // bucket but never above max(). 0 when empty. REQUIRES: 0 <= percentile <= 100.
  int64_t Percentile(double percentile) const;

  // How many recorded values exceed `value`, whole buckets only.
  int64_t CountAbove(int64_t value) const;

 private:
  std::vector<int64_t> buckets_;
  int64_t count_ = 0;
  int64_t min_ = 0;
  int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_HISTOGRAM_H_
