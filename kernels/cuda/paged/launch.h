// Launching one instantiation; each lives in a .cu of its own.
#ifndef TESSERA_KERNELS_CUDA_PAGED_LAUNCH_H_
#define TESSERA_KERNELS_CUDA_PAGED_LAUNCH_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/paged/decode_kernel.h"
#include "kernels/cuda/paged/paged_kernel_entry.h"

namespace tessera::cuda::paged {

inline cudaLaunchConfig_t LaunchConfig(dim3 blocks, int threads, int shared_bytes, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return config;
}

// overlap: blocks may start while the kernel that writes the table is still running; they wait for it themselves.
template <typename Kernel>
cudaError_t Launch(cudaLaunchConfig_t config, Kernel kernel, const PagedLaunch& launch, bool overlap) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, launch);
}

template <typename Traits>
cudaError_t LaunchDecode(const PagedLaunch& launch, bool overlap, cudaStream_t stream) {
  // With the block's own kilobyte and static variables it is what a block may have on compute capability 8.6 and 8.9.
  static_assert(Traits::kSharedBytes <= 98 * 1024, "runs on every GPU since Ampere");
  const cudaError_t error =
      cudaFuncSetAttribute(DecodeKernel<Traits>, cudaFuncAttributeMaxDynamicSharedMemorySize, Traits::kSharedBytes);
  if (error != cudaSuccess) return error;
  return Launch(LaunchConfig(dim3(launch.item_count), Traits::kThreads, Traits::kSharedBytes, stream),
                DecodeKernel<Traits>, launch, overlap);
}

template <typename Traits>
constexpr PagedKernelEntry DecodeEntryOf() {
  return {Traits::kHeadDim, Traits::kTileRows, &LaunchDecode<Traits>};
}

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_LAUNCH_H_
