// Launching the kernels for any types, strides and alignment.
#ifndef TESSERA_KERNELS_CUDA_PAGED_ROW_LAUNCH_H_
#define TESSERA_KERNELS_CUDA_PAGED_ROW_LAUNCH_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/paged/launch.h"
#include "kernels/cuda/paged/row_kernel.h"

namespace tessera::cuda::paged {

template <typename Element, typename Cached>
cudaError_t LaunchByRow(const PagedLaunch& launch, bool overlap, cudaStream_t stream) {
  return Launch(LaunchConfig(dim3(launch.item_count), kRowKernelThreads, 0, stream), RowKernel<Element, Cached>, launch,
                overlap);
}

// item_count: rows times key heads of the entry that has the most.
template <typename Element, typename Cached>
cudaError_t LaunchAppend(const PagedLaunch& launch, bool overlap, cudaStream_t stream) {
  constexpr uint32_t kMostBlocks = 2048;  // of an entry; a warp has one row of a head, or several by turns
  constexpr uint32_t kWarps = kRowKernelThreads / 32;
  const uint32_t blocks = std::min((launch.item_count + kWarps - 1) / kWarps, kMostBlocks);
  return Launch(LaunchConfig(dim3(launch.entry_count, blocks), kRowKernelThreads, 0, stream),
                AppendKernel<Element, Cached>, launch, overlap);
}

template <typename Element, typename Cached>
constexpr PagedKernels KernelsOf() {
  // Every head size: columns are looped over.
  return {{256, kRowKernelRows, &LaunchByRow<Element, Cached>}, &LaunchAppend<Element, Cached>};
}

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_ROW_LAUNCH_H_
