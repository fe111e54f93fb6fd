// Launching the kernels for any types, strides and alignment.
#ifndef TESSERA_KERNELS_CUDA_PAGED_ROW_LAUNCH_H_
#define TESSERA_KERNELS_CUDA_PAGED_ROW_LAUNCH_H_

#include "kernels/cuda/paged/launch.h"
#include "kernels/cuda/paged/row_kernel.h"

namespace tessera::cuda::paged {

template <typename Element, typename Cached>
cudaError_t LaunchByRow(const PagedLaunch& launch, bool overlap, cudaStream_t stream) {
  return Launch(LaunchConfig(dim3(launch.item_count), kRowKernelThreads, 0, stream), RowKernel<Element, Cached>, launch,
                overlap);
}

template <typename Element, typename Cached>
cudaError_t LaunchAppend(const PagedLaunch& launch, bool overlap, cudaStream_t stream) {
  constexpr int kBlocksAnEntry = 64;
  return Launch(LaunchConfig(dim3(launch.entry_count, kBlocksAnEntry), kRowKernelThreads, 0, stream),
                AppendKernel<Element, Cached>, launch, overlap);
}

template <typename Element, typename Cached>
constexpr PagedKernels KernelsOf() {
  // Every head size: columns are looped over.
  return {{256, kRowKernelRows, &LaunchByRow<Element, Cached>}, &LaunchAppend<Element, Cached>};
}

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_ROW_LAUNCH_H_
