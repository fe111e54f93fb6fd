// What one split of a sequence's keys comes to, before the splits are put together.
#ifndef TESSERA_KERNELS_CPU_SPLIT_PARTIAL_H_
#define TESSERA_KERNELS_CPU_SPLIT_PARTIAL_H_

#include <cstdint>

namespace tessera {

// Of all stacked rows of one key head. Scores stay as they are, unscaled: their differences lose nothing however large
// they are, which a log-sum-exp in float32 would.
struct SplitPartial {
  float* o;    // [rows, head_dim]: sum of weight * v, not yet divided
  float* max;  // [rows]: largest q.k (after softcap, where there is one); -inf where the row sees no key of the split
  float* sum;  // [rows]: sum of the weights, relative to max

  // Cuts one out of `memory`, Floats(rows, head_dim) of it.
  static SplitPartial In(float* memory, int64_t rows, int64_t head_dim) {
    return {memory, memory + rows * head_dim, memory + rows * (head_dim + 1)};
  }
  static constexpr int64_t Floats(int64_t rows, int64_t head_dim) { return rows * (head_dim + 2); }
};

}  // namespace tessera

#endif  // TESSERA_KERNELS_CPU_SPLIT_PARTIAL_H_
