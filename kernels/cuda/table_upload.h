// Brings a launch's table to the device as kernel arguments: asynchronous without pinned memory, safe for the caller to
// free at once, and recordable in a graph.
#ifndef TESSERA_KERNELS_CUDA_TABLE_UPLOAD_H_
#define TESSERA_KERNELS_CUDA_TABLE_UPLOAD_H_

#include <cuda_runtime_api.h>

#include <cstddef>

namespace tessera::cuda {

// Enqueues the copy of `bytes` bytes, after which `zero_bytes` are cleared. REQUIRES: both addresses and numbers of
// bytes are multiples of 16.
cudaError_t UploadTable(void* device, const void* host, size_t bytes, size_t zero_bytes, cudaStream_t stream);

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_TABLE_UPLOAD_H_
