// Working memory of one thread while it computes blocks.
#ifndef TESSERA_KERNELS_CPU_SCRATCH_H_
#define TESSERA_KERNELS_CPU_SCRATCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/attention.h"
#include "kernels/cpu/tile_shape.h"

namespace tessera {

// All of it float32, laid out for the micro-kernels. A panel is the rows that fill the registers' vectors, `panel` of
// them; the last panel of a block may be narrower.
struct alignas(64) Scratch {
  float q[kBlockElements];              // by panel: [head_dim, panel], transposed
  float o[kBlockElements];              // by panel: [head_dim, panel], transposed, not yet divided by the sum
  float k[kTileKeys * kKeyStride];      // [kTileKeys, kKeyStride]
  float v[kTileKeys * kKeyStride];      // [kTileKeys, kKeyStride]
  float scores[kTileKeys * kTileRows];  // of one panel: [kTileKeys, panel], transposed; then the weights
  float row_max[kMaxBlockRows];         // running maximum of q.k (after softcap, where there is one)
  float row_sum[kMaxBlockRows];         // running sum of weights relative to row_max
  float rescale[kTileRows];             // of one panel: what the tile shrinks earlier outputs by
  float begin_key[kTileRows];           // of one panel: first visible key, relative to the tile
  float end_key[kTileRows];             // of one panel: one past the last, likewise
  float divide[kMaxBlockRows];          // at the end: 1 / row_sum, or 0
  float lse[kMaxBlockRows];             // at the end
};

// Scratch handed from call to call. Holds as many as have ever been in use at once. Thread-safe.
class ScratchPool {
 public:
  // Null where memory cannot be had.
  std::unique_ptr<Scratch> Take();
  void Return(std::unique_ptr<Scratch> scratch);

 private:
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_KERNELS_CPU_SCRATCH_H_
