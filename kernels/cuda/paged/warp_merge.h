// Puts the warps' results of an item together, in shared memory and in the order of the warps.
#ifndef TESSERA_KERNELS_CUDA_PAGED_WARP_MERGE_H_
#define TESSERA_KERNELS_CUDA_PAGED_WARP_MERGE_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/paged/decode_warp.h"
#include "kernels/cuda/paged/row_output.h"
#include "kernels/cuda/paged/row_sums.h"

namespace tessera::cuda::paged {

template <typename Traits>
class WarpMerge {
 public:
  static constexpr int kRowFloats = Traits::kHeadDim + 8;  // the rows of a quad's lanes meet no bank twice
  static constexpr int kRows = Traits::kWarps * Traits::kTileRows;
  static constexpr int kBytes =
      kRows * (kRowFloats * static_cast<int>(sizeof(float)) + static_cast<int>(sizeof(RowSums)));
  static_assert(kBytes <= Traits::kSharedBytes, "it takes the place of the ring");

  __device__ __forceinline__ explicit WarpMerge(unsigned char* shared)
      : o_(reinterpret_cast<float*>(shared)), sums_(reinterpret_cast<RowSums*>(o_ + kRows * kRowFloats)) {}

  // This warp's rows, as far as they exist. By whole warps; complete after a block barrier.
  __device__ __forceinline__ void Put(const DecodeWarp<Traits>& warp, int rows) {
    const int base = threadIdx.x / 32 * Traits::kTileRows;
    warp.ForEachOutput([&](int row, int column, float value) {
      if (row < rows) o_[(base + row) * kRowFloats + column] = value;
    });
    warp.ForEachRow([&](int row, const RowSums& sums) {
      if (row < rows && threadIdx.x % 4 == 0) sums_[base + row] = sums;
    });
  }

  // Stores the sum over the warps by StoreRow. Returns the rows, a bit each, of which this thread stored something that
  // is not finite. By the whole block.
  __device__ __forceinline__ uint32_t Store(const PagedLaunch& launch, const PagedWork& work) const {
    const float factor_log2 = work.scores.factor_log2;
    uint32_t broken = 0;
    const int quads = launch.head_dim / 4;
    for (int i = threadIdx.x; i < work.rows * quads; i += Traits::kThreads) {
      const int row = i / quads;
      const int column = (i - row * quads) * 4;
      RowSums total = {-INFINITY, 0.0f};
#pragma unroll
      for (int warp = 0; warp < Traits::kWarps; ++warp) total.max = fmaxf(total.max, Sums(warp, row).max);
      float o[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int warp = 0; warp < Traits::kWarps; ++warp) {
        const RowSums sums = Sums(warp, row);
        const float shrink = Shrink(sums.max, total.max, factor_log2);
        total.sum += sums.sum * shrink;
        const float4 part =
            *reinterpret_cast<const float4*>(o_ + (warp * Traits::kTileRows + row) * kRowFloats + column);
        o[0] += part.x * shrink, o[1] += part.y * shrink, o[2] += part.z * shrink, o[3] += part.w * shrink;
      }
      StoreRow<typename Traits::Element>(launch, work, row, column, o, total);
      // Each product is NaN unless its factor is finite.
      if (!(0.0f * o[0] + 0.0f * o[1] + 0.0f * o[2] + 0.0f * o[3] == 0.0f)) broken |= 1u << row;
    }
    return broken;
  }

 private:
  __device__ __forceinline__ RowSums Sums(int warp, int row) const { return sums_[warp * Traits::kTileRows + row]; }

  float* const o_;       // [kWarps, kTileRows, kRowFloats]
  RowSums* const sums_;  // [kWarps, kTileRows]
};

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_WARP_MERGE_H_
