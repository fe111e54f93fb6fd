// The store warp: brings finished tiles from shared memory to O, and gives their buffers back to the load warp.
#ifndef TESSERA_KERNELS_CUDA_SM90_STORE_H_
#define TESSERA_KERNELS_CUDA_SM90_STORE_H_

#include "kernels/cuda/ptx/barrier.h"
#include "kernels/cuda/ptx/tma.h"
#include "kernels/cuda/sm90/load.h"
#include "kernels/cuda/sm90/traits.h"

namespace tessera::cuda::sm90 {

template <typename Traits>
class OutputStorer {
 public:
  using Storage = SharedStorage<Traits>;
  using Layout = typename Traits::QLayout;

  __device__ OutputStorer(const ForwardLaunch& launch, Storage& storage) : launch_(launch), storage_(storage) {}

  // By one thread.
  __device__ void Run() {
    ForEachTile(storage_, [this](const TileInfo& info) { Store(info); });
  }

 private:
  // Each warpgroup's rows as soon as they are there. Rows and columns that do not exist the copy engine leaves out.
  __device__ void Store(const TileInfo& info) {
    const TensorMap* map = &launch_.sequences[info.sequence].o_map;
    for (int warpgroup = 0; warpgroup < Traits::kConsumers; ++warpgroup) {
      ptx::BarrierWait(&storage_.o_full[buffer_.index()][warpgroup], buffer_.parity());
#pragma unroll
      for (int slab = 0; slab < Layout::kSlabs; ++slab) {
        ptx::TmaStore4d(map, storage_.q[buffer_.index()][warpgroup] + slab * Layout::kSlabBytes,
                        slab * Layout::kSlabWidth, 0, info.first_token + warpgroup * info.shape.tokens_per_unit,
                        info.head);
      }
      ptx::TmaStoreDrain();
      ptx::BarrierArrive(&storage_.q_empty[buffer_.index()][warpgroup]);
    }
    buffer_.Advance();
  }

  const ForwardLaunch& launch_;
  Storage& storage_;
  RingCursor<Traits::kQueryBuffers> buffer_;
};

}  // namespace tessera::cuda::sm90

#endif  // TESSERA_KERNELS_CUDA_SM90_STORE_H_
