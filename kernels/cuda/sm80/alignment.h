// Which sequences 16-byte accesses can read and write.
#ifndef TESSERA_KERNELS_CUDA_SM80_ALIGNMENT_H_
#define TESSERA_KERNELS_CUDA_SM80_ALIGNMENT_H_

#include <cstdint>

#include "kernels/cuda/forward_table.h"
#include "kernels/cuda/sm80/padded_tile.h"

namespace tessera::cuda::sm80 {

// Whether every row of q, k, v and o starts at a multiple of 16 bytes.
template <typename Element>
__host__ __device__ inline bool IsAligned(const SequenceEntry& entry) {
  const auto address = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); };
  const auto stride = [](const TensorStrides& strides) {
    return static_cast<uintptr_t>(strides.token | strides.head) * sizeof(Element);
  };
  const uintptr_t bits = address(entry.q) | address(entry.k) | address(entry.v) | address(entry.shape.o) |
                         stride(entry.q_strides) | stride(entry.k_strides) | stride(entry.v_strides) |
                         stride(entry.shape.o_strides);
  return bits % kChunkBytes == 0;
}

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_ALIGNMENT_H_
