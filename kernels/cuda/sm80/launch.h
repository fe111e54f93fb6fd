// Launching one instantiation; each lives in a .cu of its own.
#ifndef TESSERA_KERNELS_CUDA_SM80_LAUNCH_H_
#define TESSERA_KERNELS_CUDA_SM80_LAUNCH_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/forward_kernel_entry.h"
#include "kernels/cuda/forward_table.h"

namespace tessera::cuda::sm80 {

// What a block may have on the GPUs with the least shared memory, compute capability 8.6, 8.9 and 12.0: 99 KiB.
inline constexpr int kMaxSharedBytes = 99 * 1024;

// One block a tile: the hardware starts blocks in the order of their numbers.
template <auto kKernel, typename Traits>
cudaError_t LaunchTiles(const ForwardLaunch& launch, int /*multiprocessors*/, cudaStream_t stream) {
  static_assert(Traits::kSharedBytes + Traits::kStaticSharedBytes <= kMaxSharedBytes, "runs on every GPU since Ampere");
  const cudaError_t error =
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Traits::kSharedBytes);
  if (error != cudaSuccess) return error;
  kKernel<<<launch.tile_count, Traits::kThreads, Traits::kSharedBytes, stream>>>(launch);
  return cudaGetLastError();
}

template <auto kKernel, typename Traits>
constexpr ForwardKernelEntry EntryOf() {
  return {Traits::kHeadDim, Traits::kTileRows, Traits::kTileKeys, &LaunchTiles<kKernel, Traits>};
}

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_LAUNCH_H_
