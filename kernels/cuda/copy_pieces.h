// Copies many pieces of memory by one launch: what would be a copy or a fill each, some microseconds apiece.
#ifndef TESSERA_KERNELS_CUDA_COPY_PIECES_H_
#define TESSERA_KERNELS_CUDA_COPY_PIECES_H_

#include <cuda_runtime_api.h>

#include <cstddef>

namespace tessera::cuda {

// Both addresses are the device's own memory or pinned host memory, in any combination. Fast where they are multiples
// of 16.
struct CopyPiece {
  void* to;
  const void* from;  // null: `to` is set to zero
  size_t bytes;
};

// Enqueues the copies; the list may be freed at once. REQUIRES: no piece overlaps the destination of another.
cudaError_t CopyPieces(const CopyPiece* pieces, size_t count, cudaStream_t stream);

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_COPY_PIECES_H_
