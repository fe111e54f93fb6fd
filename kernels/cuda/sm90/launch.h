// Launching one instantiation; each lives in a .cu of its own.
#ifndef TESSERA_KERNELS_CUDA_SM90_LAUNCH_H_
#define TESSERA_KERNELS_CUDA_SM90_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

#include "kernels/cuda/forward_kernel_entry.h"
#include "kernels/cuda/sm90/forward_kernel.h"

namespace tessera::cuda::sm90 {

// Lets the kernel have its shared memory on the current device; asks the runtime once a device.
template <typename Traits, bool kMapsScores>
cudaError_t AllowSharedMemory() {
  static_assert(kSharedBytes<Traits> <= kMaxSharedBytes, "the tile and its stages must fit one block");
  static std::atomic<uint64_t> allowed{0};  // a bit for each of the first 64 devices
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  const uint64_t bit = device < 64 ? uint64_t{1} << device : 0;
  if (error != cudaSuccess || (allowed.load(std::memory_order_relaxed) & bit) != 0) return error;
  error = cudaFuncSetAttribute(ForwardKernel<Traits, kMapsScores>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               kSharedBytes<Traits>);
  if (error == cudaSuccess) allowed.fetch_or(bit, std::memory_order_relaxed);
  return error;
}

template <typename Traits, bool kMapsScores>
cudaError_t LaunchForward(const ForwardLaunch& launch, int multiprocessors, cudaStream_t stream) {
  const cudaError_t error = AllowSharedMemory<Traits, kMapsScores>();
  if (error != cudaSuccess) return error;

  // The blocks may start while the kernel that writes the table is still running; they wait for it themselves.
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(launch.tile_count < static_cast<uint32_t>(multiprocessors) ? launch.tile_count : multiprocessors);
  config.blockDim = dim3(Traits::kThreads);
  config.dynamicSmemBytes = kSharedBytes<Traits>;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, ForwardKernel<Traits, kMapsScores>, launch);
}

// Scores are seldom mapped; kernels that never do are half the size, which shows in their instruction fetches.
template <typename Traits>
cudaError_t LaunchForward(const ForwardLaunch& launch, int multiprocessors, cudaStream_t stream) {
  return launch.score_map.applies ? LaunchForward<Traits, true>(launch, multiprocessors, stream)
                                  : LaunchForward<Traits, false>(launch, multiprocessors, stream);
}

template <typename Traits>
constexpr ForwardKernelEntry EntryOf() {
  return {Traits::kHeadDim, Traits::kTileRows, Traits::kTileKeys, &LaunchForward<Traits>};
}

}  // namespace tessera::cuda::sm90

#endif  // TESSERA_KERNELS_CUDA_SM90_LAUNCH_H_
