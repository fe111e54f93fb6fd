// Attention of few rows over pages (sm_80 and later), 16-bit elements: mma.sync, ldmatrix, cp.async. One item a block.
//
// One launch appends the new rows, attends, and combines the splits: a block appends those of its own keys, and of a
// lane's blocks the last one combines.
#ifndef TESSERA_KERNELS_CUDA_PAGED_DECODE_KERNEL_H_
#define TESSERA_KERNELS_CUDA_PAGED_DECODE_KERNEL_H_

#include <cstdint>

#include "kernels/cuda/paged/append_rows.h"
#include "kernels/cuda/paged/combine_splits.h"
#include "kernels/cuda/paged/decode_traits.h"
#include "kernels/cuda/paged/decode_warp.h"
#include "kernels/cuda/paged/row_by_row.h"
#include "kernels/cuda/paged/warp_merge.h"
#include "kernels/cuda/ptx/fence.h"

namespace tessera::cuda::paged {

template <typename Traits>
__global__ void __launch_bounds__(Traits::kThreads, Traits::kBlocks)
    DecodeKernel(const __grid_constant__ PagedLaunch launch) {
  using Element = typename Traits::Element;
  using Cached = typename Traits::Cached;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ uint32_t broken;  // rows to be redone, a bit each
#if __CUDA_ARCH__ >= 900
  if (launch.entries != nullptr) ptx::GridDependencyWait();  // the table is written
#endif
  __shared__ PagedWork work;
  FindWork<Traits::kTileRows>(launch, work);
  AppendSplit<Element, Cached>(launch, work);

  unsigned char* ring = shared + threadIdx.x / 32 * Traits::Stream::kWarpBytes;
  typename Traits::Stream stream(launch, work, ptx::SharedAddress(ring));
  stream.Start();
  DecodeWarp<Traits> warp(launch, work);
  warp.LoadQueries();
  if (threadIdx.x == 0) broken = 0;
  warp.Run(stream, ring);

  ptx::AsyncCopyWait<0>();
  __syncthreads();  // the ring is no longer in use
  WarpMerge<Traits> merge(shared);
  merge.Put(warp, work.rows);
  if (warp.met_nan()) atomicOr(&broken, 0xffffffffu);
  __syncthreads();
  const uint32_t not_finite = merge.Store(launch, work);
  // Only where a key was masked can a hidden value have reached a row.
  if (work.any_masked() && not_finite != 0) atomicOr(&broken, not_finite);
  __syncthreads();
  for (int row = threadIdx.x / 32; row < work.rows; row += Traits::kWarps) {
    if ((broken >> row & 1) != 0) ComputeRow<Element, Cached>(launch, work, row);
  }
#if __CUDA_ARCH__ >= 900
  ptx::GridDependencyWait();  // the counters are
#endif
  if (work.entry.splits > 1) {
    using Memory = CombineMemory<Traits::kTileRows>;
    static_assert(sizeof(Memory) <= Traits::kSharedBytes, "it takes the place of the warps' results");
    CombineSplits<Element, Traits::kCombineReads>(launch, work, *reinterpret_cast<Memory*>(shared));
  }
}

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_DECODE_KERNEL_H_
