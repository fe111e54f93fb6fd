// Attention over pages and appending to them for any types, strides and alignment: slow, element by element.
#ifndef TESSERA_KERNELS_CUDA_PAGED_ROW_KERNEL_H_
#define TESSERA_KERNELS_CUDA_PAGED_ROW_KERNEL_H_

#include <cstdint>

#include "kernels/cuda/paged/append_rows.h"
#include "kernels/cuda/paged/combine_splits.h"
#include "kernels/cuda/paged/row_by_row.h"
#include "kernels/cuda/ptx/fence.h"

namespace tessera::cuda::paged {

inline constexpr int kRowKernelRows = 16;
inline constexpr int kRowKernelThreads = 128;

// One item a block, one row at a time a warp.
template <typename Element, typename Cached>
__global__ void __launch_bounds__(kRowKernelThreads) RowKernel(const __grid_constant__ PagedLaunch launch) {
#if __CUDA_ARCH__ >= 900
  ptx::GridDependencyWait();
#endif
  __shared__ PagedWork work;
  FindWork<kRowKernelRows>(launch, work);
  for (int row = threadIdx.x / 32; row < work.rows; row += kRowKernelThreads / 32) {
    ComputeRow<Element, Cached>(launch, work, row);
  }
  __shared__ CombineMemory<kRowKernelRows> memory;
  if (work.entry.splits > 1) CombineSplits<Element, 16>(launch, work, memory);
}

// The new rows of entry blockIdx.x; blocks of the same entry share them.
template <typename Element, typename Cached>
__global__ void __launch_bounds__(kRowKernelThreads) AppendKernel(const __grid_constant__ PagedLaunch launch) {
#if __CUDA_ARCH__ >= 900
  ptx::GridDependencyWait();
  ptx::GridDependencyLaunch();  // what is gathered next is mostly there already
#endif
  constexpr int kWarps = kRowKernelThreads / 32;
  const PagedEntry& entry = launch.entries != nullptr ? launch.entries[blockIdx.x] : launch.carried[blockIdx.x];
  const int64_t rows = int64_t{entry.append_len} * launch.kv_heads;
  const int64_t step = int64_t{gridDim.y} * kWarps;
  for (int64_t i = int64_t{blockIdx.y} * kWarps + threadIdx.x / 32; i < rows; i += step) {
    const int32_t row = static_cast<int32_t>(i / launch.kv_heads);
    AppendRow<Element, Cached>(launch, entry, row, static_cast<int32_t>(i % launch.kv_heads));
  }
}

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_ROW_KERNEL_H_
