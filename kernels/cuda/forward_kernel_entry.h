// How the host sees one compiled forward kernel: its shapes and its launcher.
#ifndef TESSERA_KERNELS_CUDA_FORWARD_KERNEL_ENTRY_H_
#define TESSERA_KERNELS_CUDA_FORWARD_KERNEL_ENTRY_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/forward_table.h"

namespace tessera::cuda {

struct ForwardKernelEntry {
  int head_dim;  // computed; shorter heads are filled up with zeros
  int tile_rows;
  int tile_keys;
  // Enqueues one launch over at most `multiprocessors` blocks. The table must be complete by then on the same stream.
  cudaError_t (*launch)(const ForwardLaunch& launch, int multiprocessors, cudaStream_t stream);
};

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_FORWARD_KERNEL_ENTRY_H_
