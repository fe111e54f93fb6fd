// The portable fp32 forward kernel: the structure of forward_kernel.h on the FP32 units.
#ifndef TESSERA_KERNELS_CUDA_SM80_FP32_KERNEL_H_
#define TESSERA_KERNELS_CUDA_SM80_FP32_KERNEL_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/ptx/barrier.h"
#include "kernels/cuda/sm80/alignment.h"
#include "kernels/cuda/sm80/block_work.h"
#include "kernels/cuda/sm80/epilogue.h"
#include "kernels/cuda/sm80/fp32_mainloop.h"
#include "kernels/cuda/sm80/row_by_row.h"

namespace tessera::cuda::sm80 {

// Normalises and stores row `row`, the thread's i-th, and its LSE. Returns whether it exists and is not finite.
template <typename Traits>
__device__ __forceinline__ bool Fp32StoreRow(const ForwardLaunch& launch, const RowTile& tile,
                                             const Fp32Mainloop<Traits>& rows, int i, int row) {
  const SequenceShape& shape = tile.shape();
  const RowPlace place = tile.Place(row);
  const int lane = threadIdx.x % Traits::kColumnLanes;
  const float l = RowSum(rows.l[i]);
  const float inverse = l == 0.0f ? 0.0f : 1.0f / l;
  float* o = static_cast<float*>(shape.o) + place.token * shape.o_strides.token + place.q_head * shape.o_strides.head;
  float probe = 0.0f;  // NaN unless all outputs are finite
#pragma unroll
  for (int c = 0; c < Traits::kThreadChunks; ++c) {
    const float4 sum = rows.o[i][c];
    const float4 value = {sum.x * inverse, sum.y * inverse, sum.z * inverse, sum.w * inverse};
    probe += 0.0f * value.x + 0.0f * value.y + 0.0f * value.z + 0.0f * value.w;
    const int32_t column = 32 * c + 4 * lane;
    if (place.exists && column < launch.head_dim) *reinterpret_cast<float4*>(o + column) = value;
  }
  if (lane == 0 && place.exists && shape.lse != nullptr) {
    shape.lse[place.token * shape.lse_strides.token + place.q_head * shape.lse_strides.head] =
        l == 0.0f ? -INFINITY : rows.m[i] * (launch.score_map.factor_log2 * kLn2) + logf(l);
  }
  return RowSum(probe) != 0.0f && place.exists;
}

template <typename Traits>
__global__ void __launch_bounds__(Traits::kThreads, Traits::kBlocks)
    Fp32ForwardKernel(const __grid_constant__ ForwardLaunch launch) {
  extern __shared__ __align__(16) unsigned char shared[];
  const uint32_t q_tile = ptx::SharedAddress(shared);

  __shared__ BlockWork work;
  work.Find<Traits>(launch);
  const RowTile& tile = work.tile;
  if (!IsAligned<float>(*tile.entry)) return ComputeRowByRow<float, Traits::kTileRows>(launch, tile);
  typename Traits::Ring ring(q_tile + Traits::QTile::kBytes, work, launch.head_dim);
  CopyQueries<typename Traits::QTile, Traits::kThreads>(launch, tile, q_tile);
  ptx::AsyncCopyCommit();
  ring.Start();

  Fp32Mainloop<Traits> rows(launch, tile, shared);
  ring.WaitEarlierCopies();
  __syncthreads();
  rows.Run(work.blocks, ring);

  const int first_row = threadIdx.x / Traits::kColumnLanes;
  uint32_t broken = 0;  // bit i
#pragma unroll
  for (int i = 0; i < Traits::kThreadRows; ++i) {
    broken |= uint32_t{Fp32StoreRow(launch, tile, rows, i, first_row + i * Traits::kRowLanes)} << i;
  }
  if (!work.blocks.any_masked()) return;
#pragma unroll 1
  for (int i = 0; i < Traits::kThreadRows; ++i) {
    RepairRows<float>(launch, tile, first_row + i * Traits::kRowLanes,
                      threadIdx.x % Traits::kColumnLanes == 0 && (broken >> i & 1) != 0);
  }
}

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_FP32_KERNEL_H_
