// The sm_90a forward kernel: warp roles only. docs/hopper_forward.md explains the whole.
#ifndef TESSERA_KERNELS_CUDA_SM90_FORWARD_KERNEL_H_
#define TESSERA_KERNELS_CUDA_SM90_FORWARD_KERNEL_H_

#include <cstdint>

#include "kernels/cuda/ptx/barrier.h"
#include "kernels/cuda/ptx/fence.h"
#include "kernels/cuda/ptx/registers.h"
#include "kernels/cuda/sm90/epilogue.h"
#include "kernels/cuda/sm90/load.h"
#include "kernels/cuda/sm90/mainloop.h"
#include "kernels/cuda/sm90/paged_blocks.h"
#include "kernels/cuda/sm90/store.h"
#include "kernels/cuda/sm90/tile_scheduler.h"
#include "kernels/cuda/sm90/traits.h"

namespace tessera::cuda::sm90 {

template <typename Traits>
__device__ __forceinline__ void InitBarriers(SharedStorage<Traits>& storage) {
  for (int buffer = 0; buffer < Traits::kQueryBuffers; ++buffer) {
    for (int warpgroup = 0; warpgroup < Traits::kConsumers; ++warpgroup) {
      ptx::BarrierInit(&storage.q_full[buffer][warpgroup], 1);
      ptx::BarrierInit(&storage.q_empty[buffer][warpgroup], Traits::kStagesOutput ? 1 : 4);
      ptx::BarrierInit(&storage.o_full[buffer][warpgroup], 4);
    }
  }
  for (int stage = 0; stage < Traits::kStages; ++stage) {
    ptx::BarrierInit(&storage.k_full[stage], 1);
    ptx::BarrierInit(&storage.k_empty[stage], Traits::kConsumerWarps);
    ptx::BarrierInit(&storage.v_full[stage], 1);
    ptx::BarrierInit(&storage.v_empty[stage], Traits::kConsumerWarps);
  }
  for (int slot = 0; slot < kTileSlots; ++slot) {
    ptx::BarrierInit(&storage.tile_full[slot], 32);
    ptx::BarrierInit(&storage.tile_empty[slot], Traits::kConsumerWarps + (Traits::kStagesOutput ? 3 : 2));
  }
  ptx::BarrierInit(&storage.tile_wanted, 1);
  ptx::FenceBarrierInit();
}

template <typename Traits, bool kMapsScores>
__device__ __forceinline__ void Consume(const ForwardLaunch& launch, SharedStorage<Traits>& storage, int warpgroup) {
  using Element = typename Traits::Element;
  constexpr int kOutputs = Traits::kHeadDim / 2;
  const int lane = threadIdx.x % 32;
  const int first_row = warpgroup * kMmaRows + threadIdx.x % kWarpgroup / 32 * 16 + lane / 4;
  Mainloop<Traits, kMapsScores> mainloop(launch, storage, warpgroup);
  RingCursor<kTileSlots> tiles;
  float s[Traits::kTileKeys / 2];
  ptx::BarrierWait(&storage.tile_full[tiles.index()], tiles.parity());
  bool has_tile = storage.tile[tiles.index()].sequence >= 0;
  mainloop.Begin(has_tile, s);
  while (has_tile) {
    const TileInfo& info = storage.tile[tiles.index()];
    uint64_t* const tile_empty = &storage.tile_empty[tiles.index()];
    float o[kOutputs];
    uint32_t p[Traits::kTileKeys / 4];
    OnlineSoftmax softmax;
    softmax.Reset();
    mainloop.Run(info, first_row, s, p, o, softmax);

    tiles.Advance();
    ptx::BarrierWait(&storage.tile_full[tiles.index()], tiles.parity());
    has_tile = storage.tile[tiles.index()].sequence >= 0;
    mainloop.Begin(has_tile, s);
    mainloop.End(p, o);

    softmax.SumQuads();
    const float inverse[2] = {softmax.Inverse(0), softmax.Inverse(1)};
    uint32_t not_finite[2];
    if constexpr (Traits::kStagesOutput) {
      unsigned char* const stage = mainloop.OutputStage();
      StageRows<Traits>(o, inverse, stage, not_finite);
      if (info.hides_values) RepairRows<Element>(info, first_row, not_finite, launch, StagedRows<Traits>{stage});
      mainloop.PassOutputStage();
    } else {
      StoreRows<Element>(info, first_row, o, inverse, launch.head_dim, not_finite);
      if (info.hides_values) RepairRows<Element>(info, first_row, not_finite, launch, GlobalRows<Element>{info.shape});
    }
    if (info.shape.lse != nullptr) StoreLse(info, first_row, softmax, launch.score_map.factor_log2);
    __syncwarp();
    if (lane == 0) ptx::BarrierArrive(tile_empty);
  }
  ptx::WgmmaWait<0>();
}

// One block a multiprocessor; each takes tiles until none is left. kMapsScores: launch.score_map.applies.
template <typename Traits, bool kMapsScores>
__global__ void __launch_bounds__(Traits::kThreads, 1) ForwardKernel(const __grid_constant__ ForwardLaunch launch) {
  extern __shared__ unsigned char dynamic_shared[];
  const uint32_t misaligned = ptx::SharedAddress(dynamic_shared) % 1024;
  auto& storage = *reinterpret_cast<SharedStorage<Traits>*>(dynamic_shared + (1024 - misaligned) % 1024);

  if (threadIdx.x == 0) InitBarriers<Traits>(storage);
  __syncthreads();
  ptx::GridDependencyWait();

  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / kWarpgroup, 0);
  if (warpgroup == 0) {
    ptx::RegistersDecrease<Traits::kProducerRegisters>();
    if (threadIdx.x / 32 == 0) {
      TileScheduler<Traits>(launch, storage).Run();
    } else if (Traits::kReadsPages && threadIdx.x / 32 == 1 && launch.in_pages) {
      if constexpr (Traits::kReadsPages) KeyValueLoader<Traits, PagedBlocks>(launch, storage).Run();
    } else if (threadIdx.x == 32) {
      KeyValueLoader<Traits, ContiguousBlocks>(launch, storage).Run();
    } else if (threadIdx.x == 64) {
      QueryLoader<Traits>(launch, storage).Run();
    } else if (threadIdx.x == 96 && Traits::kStagesOutput) {
      OutputStorer<Traits>(launch, storage).Run();
    }
  } else {
    ptx::RegistersIncrease<Traits::kConsumerRegisters>();
    Consume<Traits, kMapsScores>(launch, storage, warpgroup - 1);
  }
}

}  // namespace tessera::cuda::sm90

#endif  // TESSERA_KERNELS_CUDA_SM90_FORWARD_KERNEL_H_
