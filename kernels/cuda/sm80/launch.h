// Launching one instantiation of a portable kernel, one block a tile; each lives in a .cu of its own.
#ifndef TESSERA_KERNELS_CUDA_SM80_LAUNCH_H_
#define TESSERA_KERNELS_CUDA_SM80_LAUNCH_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/forward_kernel_entry.h"

namespace tessera::cuda::sm80 {

inline constexpr int kSharedWithoutAsking = 48 << 10;  // bytes

template <typename Traits, void (*kKernel)(ForwardLaunch)>
cudaError_t LaunchTiles(const ForwardLaunch& launch, int /*multiprocessors*/, cudaStream_t stream) {
  if constexpr (Traits::kSharedBytes > kSharedWithoutAsking) {
    const cudaError_t error =
        cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Traits::kSharedBytes);
    if (error != cudaSuccess) return error;
  }
  kKernel<<<launch.tile_count, Traits::kThreads, Traits::kSharedBytes, stream>>>(launch);
  return cudaGetLastError();
}

template <typename Traits, void (*kKernel)(ForwardLaunch)>
constexpr ForwardKernelEntry EntryOf() {
  return {Traits::kHeadDim, Traits::kTileRows, Traits::kTileKeys, &LaunchTiles<Traits, kKernel>};
}

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_LAUNCH_H_
