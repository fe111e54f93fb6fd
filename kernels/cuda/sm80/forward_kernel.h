// The portable forward kernel (sm_80 and later), 16-bit elements: mma.sync, ldmatrix, cp.async. One tile a thread
// block; blocks start in the order of the tiles, the longest first.
#ifndef TESSERA_KERNELS_CUDA_SM80_FORWARD_KERNEL_H_
#define TESSERA_KERNELS_CUDA_SM80_FORWARD_KERNEL_H_

#include <cstdint>

#include "kernels/cuda/ptx/barrier.h"
#include "kernels/cuda/sm80/alignment.h"
#include "kernels/cuda/sm80/block_work.h"
#include "kernels/cuda/sm80/epilogue.h"
#include "kernels/cuda/sm80/mainloop.h"
#include "kernels/cuda/sm80/row_by_row.h"

namespace tessera::cuda::sm80 {

template <typename Traits>
__global__ void __launch_bounds__(Traits::kThreads, Traits::kBlocks)
    ForwardKernel(const __grid_constant__ ForwardLaunch launch) {
  using Element = typename Traits::Element;
  extern __shared__ __align__(16) unsigned char shared[];
  const uint32_t q_tile = ptx::SharedAddress(shared);

  __shared__ BlockWork work;
  work.Find<Traits>(launch);
  const RowTile& tile = work.tile;
  if (!IsAligned<Element>(*tile.entry)) return ComputeRowByRow<Element, Traits::kTileRows>(launch, tile);
  typename Traits::Ring ring(q_tile + Traits::QTile::kBytes, work, launch.head_dim);
  CopyQueries<typename Traits::QTile, Traits::kThreads>(launch, tile, q_tile);
  ptx::AsyncCopyCommit();
  ring.Start();

  RowState<Traits> rows;
#pragma unroll
  for (int group = 0; group < Traits::kRowGroups; ++group) {
    rows.softmax[group].Reset();
#pragma unroll
    for (int i = 0; i < Traits::kOutputs; ++i) rows.o[group][i] = 0.0f;
  }

  ring.WaitEarlierCopies();
  __syncthreads();
  Mainloop<Traits>(launch, tile, q_tile).Run(work.blocks, ring, rows);

  const int first_row = threadIdx.x / 32 * Traits::kWarpRows + threadIdx.x % 32 / 4;
  uint32_t broken = 0;  // bit 2 * group + i
#pragma unroll
  for (int group = 0; group < Traits::kRowGroups; ++group) {
    OnlineSoftmax& softmax = rows.softmax[group];
    softmax.SumQuads();
    const float inverse[2] = {softmax.Inverse(0), softmax.Inverse(1)};
    const float factor = launch.score_map.factor_log2;
    const float lse[2] = {softmax.Lse(0, factor), softmax.Lse(1, factor)};
    broken |= StoreRows<Element>(launch, tile, first_row + group * kMmaRows, rows.o[group], inverse, lse) << 2 * group;
  }
  // Only where a block was masked can a hidden value have reached a row. After all stores: the call keeps few
  // registers.
  if (!work.blocks.any_masked()) return;
#pragma unroll 1
  for (int i = 0; i < 2 * Traits::kRowGroups; ++i) {
    RepairRows<Element>(launch, tile, first_row + 8 * i, threadIdx.x % 4 == 0 && (broken >> i & 1) != 0);
  }
}

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_FORWARD_KERNEL_H_
