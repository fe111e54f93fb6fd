// How the host sees the compiled kernels for pages: their shapes and launchers.
#ifndef TESSERA_KERNELS_CUDA_PAGED_PAGED_KERNEL_ENTRY_H_
#define TESSERA_KERNELS_CUDA_PAGED_PAGED_KERNEL_ENTRY_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/paged/paged_table.h"

namespace tessera::cuda::paged {

// Enqueues one launch. The table must be complete by then on the same stream. `overlap`: the device lets a kernel start
// while the one before it ends (compute capability 9.0 and later), as the kernels then expect.
using PagedLauncher = cudaError_t (*)(const PagedLaunch& launch, bool overlap, cudaStream_t stream);

// Attention of launch.item_count items.
struct PagedKernelEntry {
  int head_dim;  // computed at most; shorter heads are filled up with zeros
  int tile_rows;
  PagedLauncher launch;
};

// Kernels of one element type and one type in the pages.
struct PagedKernels {
  PagedKernelEntry by_row;
  PagedLauncher append;  // the new rows of launch.entry_count entries
};

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_PAGED_KERNEL_ENTRY_H_
