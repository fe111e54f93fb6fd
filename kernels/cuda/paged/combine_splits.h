// Puts the splits of a lane together, in their order: done by whichever of its blocks finishes last.
#ifndef TESSERA_KERNELS_CUDA_PAGED_COMBINE_SPLITS_H_
#define TESSERA_KERNELS_CUDA_PAGED_COMBINE_SPLITS_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/paged/paged_work.h"
#include "kernels/cuda/paged/row_output.h"
#include "kernels/cuda/paged/row_sums.h"
#include "kernels/cuda/ptx/discard.h"

namespace tessera::cuda::paged {

// Shared memory of the block that combines. A split's sums become its weight (in `max`).
template <int kTileRows>
struct CombineMemory {
  RowSums splits[kTileRows][kMostSplits];
  RowSums totals[kTileRows];
};

// One row's splits -> weights and total. By a whole warp.
__device__ __forceinline__ void WeighSplits(RowSums (&row)[kMostSplits], int32_t splits, float factor_log2,
                                            RowSums& total) {
  const int lane = threadIdx.x % 32;
  float max = -INFINITY;
  for (int32_t split = lane; split < splits; split += 32) max = fmaxf(max, row[split].max);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, distance));
  float sum = 0.0f;
  for (int32_t split = lane; split < splits; split += 32) {
    const float weight = Shrink(row[split].max, max, factor_log2);
    sum += weight * row[split].sum;
    row[split].max = weight;
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (lane == 0) total = {max, sum};
}

// Results that nobody reads any more need not go from the L2 cache to memory: at 512 keys a split they would be 0.8% of
// all bytes, and writing between reads costs more than its bytes. Lines shared with a neighbour stay. By the whole
// block.
__device__ __forceinline__ void DiscardPartials(float* partials, int64_t floats) {
  constexpr uintptr_t kLine = ptx::kCacheLineBytes;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(partials) + kLine - 1) / kLine * kLine;
  const uintptr_t end = reinterpret_cast<uintptr_t>(partials + floats);
  for (uintptr_t line = begin + threadIdx.x * kLine; line + kLine <= end; line += blockDim.x * kLine) {
    ptx::DiscardLine(reinterpret_cast<void*>(line));
  }
}

// By the whole block, once its partial result is stored. `memory` is no longer in use for anything else once all
// threads are here.
template <typename Element, int kReads, int kTileRows>
__device__ __forceinline__ void CombineSplits(const PagedLaunch& launch, const PagedWork& work,
                                              CombineMemory<kTileRows>& memory) {
  __shared__ uint32_t finished;
  const int32_t splits = work.entry.splits;
  __threadfence();  // this thread's part of the result, before the count
  __syncthreads();
  if (threadIdx.x == 0) finished = atomicAdd(launch.counters + work.entry.first_counter + work.lane, 1u);
  __syncthreads();
  if (finished + 1 != static_cast<uint32_t>(splits)) return;
  __threadfence();  // the count, before the others' results

  // Past the first-level cache, which other blocks' writes do not reach. Many reads at a time, the first outputs along
  // with the sums: they are all that takes time here.
  const float* partial = work.Partial(launch, 0);
  const int64_t stride = work.entry.partial_floats;
  const int quads = launch.head_dim / 4;
  const int units = work.rows * quads;  // of four columns; unit i lies at 4 * i
  float4 parts[kReads];
  const auto read = [&](int unit, int32_t first) {
#pragma unroll
    for (int i = 0; i < kReads; ++i) {
      const float* const at = partial + 4 * unit + (first + i) * stride;
      if (first + i < splits) parts[i] = __ldcg(reinterpret_cast<const float4*>(at));
    }
  };
  int unit = threadIdx.x;
  if (unit < units) read(unit, 0);
  for (int i = threadIdx.x; i < work.rows * splits; i += blockDim.x) {
    const int row = i / splits;
    const int split = i - row * splits;
    const float* sums_at = partial + split * stride + work.rows * launch.head_dim + 2 * row;
    const float2 sums = __ldcg(reinterpret_cast<const float2*>(sums_at));
    memory.splits[row][split] = {sums.x, sums.y};
  }
  __syncthreads();
  for (int row = threadIdx.x / 32; row < work.rows; row += blockDim.x / 32) {
    WeighSplits(memory.splits[row], splits, work.scores.factor_log2, memory.totals[row]);
  }
  __syncthreads();
  while (unit < units) {
    const int row = unit / quads;
    float o[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int32_t first = 0;;) {
#pragma unroll
      for (int i = 0; i < kReads; ++i) {
        if (first + i >= splits) continue;
        const float weight = memory.splits[row][first + i].max;
        o[0] += parts[i].x * weight, o[1] += parts[i].y * weight;
        o[2] += parts[i].z * weight, o[3] += parts[i].w * weight;
      }
      first += kReads;
      if (first >= splits) break;
      read(unit, first);
    }
    StoreFinal<Element>(launch, work, row, (unit - row * quads) * 4, o, memory.totals[row]);
    unit += blockDim.x;
    if (unit < units) read(unit, 0);
  }
  __syncthreads();
  DiscardPartials(work.Partial(launch, 0), splits * stride);
}

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_COMBINE_SPLITS_H_
