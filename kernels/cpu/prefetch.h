// Brings the next tile of K and V nearer while the current one is computed.
//
// A tile's rows lie a token apart, often a page each, so that the hardware foresees nothing: without help, packing a
// tile waits for memory row by row. Fetching is spread over the tile before, a few rows for each register block.
#ifndef TESSERA_KERNELS_CPU_PREFETCH_H_
#define TESSERA_KERNELS_CPU_PREFETCH_H_

#include <algorithm>
#include <cstdint>

namespace tessera {

class TilePrefetch {
 public:
  // Nothing to fetch.
  TilePrefetch() = default;

  // `rows` rows of `row_bytes` from `k` and `v` on, a stride (in bytes) apart, in `steps` equal steps.
  TilePrefetch(const void* k, int64_t k_stride, const void* v, int64_t v_stride, int64_t row_bytes, int64_t rows,
               int64_t steps)
      : k_(static_cast<const char*>(k)),
        v_(static_cast<const char*>(v)),
        k_stride_(k_stride),
        v_stride_(v_stride),
        row_bytes_(row_bytes),
        rows_(rows),
        rows_per_step_((rows + steps - 1) / steps) {}

  void Step() {
    const int64_t rows = std::min(rows_, rows_per_step_);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t byte = 0; byte < row_bytes_; byte += kLine) {
        __builtin_prefetch(k_ + byte, /*rw=*/0, kAllLevels);
        __builtin_prefetch(v_ + byte, /*rw=*/0, kAllLevels);
      }
      k_ += k_stride_;
      v_ += v_stride_;
    }
    rows_ -= rows;
  }

 private:
  static constexpr int64_t kLine = 64;
  static constexpr int kAllLevels = 3;

  const char* k_ = nullptr;
  const char* v_ = nullptr;
  int64_t k_stride_ = 0;
  int64_t v_stride_ = 0;
  int64_t row_bytes_ = 0;
  int64_t rows_ = 0;
  int64_t rows_per_step_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_KERNELS_CPU_PREFETCH_H_
