// Rows of Q, K and V from global to shared memory for the portable kernels.
//
// Elements past head_dim and rows that do not exist become zero. Where addresses and strides are multiples of 16 bytes
// the copies are asynchronous, 16 bytes each; otherwise threads copy element by element.
#ifndef TESSERA_KERNELS_CUDA_SM80_LOAD_H_
#define TESSERA_KERNELS_CUDA_SM80_LOAD_H_

#include <cstdint>

#include "kernels/cuda/forward_table.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/barrier.h"

namespace tessera::cuda::sm80 {

// Whether every row of this tensor starts at a multiple of 16 bytes.
template <typename Element>
__device__ __forceinline__ bool Aligned(const void* data, const TensorStrides& strides) {
  constexpr int kBytes = sizeof(Element);
  return (reinterpret_cast<uintptr_t>(data) | static_cast<uintptr_t>(strides.token * kBytes) |
          static_cast<uintptr_t>(strides.head * kBytes)) % 16 == 0;
}

// One 16-byte piece of a row, pieces counted in elements from `column`; source is null where the row does not exist.
template <typename Element>
__device__ __forceinline__ void LoadPiece(unsigned char* shared, const Element* source, int column, int head_dim,
                                          bool aligned, const void* any_address) {
  constexpr int kElements = 16 / sizeof(Element);
  const bool valid = source != nullptr && column < head_dim;
  if (aligned) {
    ptx::AsyncCopy16(ptx::SharedAddress(shared), valid ? static_cast<const void*>(source + column) : any_address, valid);
    return;
  }
  Element* destination = reinterpret_cast<Element*>(shared);
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    destination[i] = valid && column + i < head_dim ? source[column + i] : static_cast<Element>(0.0f);
  }
}

// kRows keys from `first_key` of one key head into rows of kRowBytes bytes, kHeadDim elements each.
template <typename Element, int kRows, int kHeadDim, int kRowBytes, int kThreads>
__device__ __forceinline__ void LoadKeyRows(unsigned char* shared, const void* data, const TensorStrides& strides,
                                            int32_t kv_len, int32_t first_key, int32_t kv_head, int head_dim) {
  constexpr int kElements = 16 / sizeof(Element);
  constexpr int kPieces = kHeadDim / kElements;
  const bool aligned = Aligned<Element>(data, strides);
  const Element* head = static_cast<const Element*>(data) + kv_head * strides.head;
  for (int piece = threadIdx.x; piece < kRows * kPieces; piece += kThreads) {
    const int row = piece / kPieces;
    const int column = piece % kPieces * kElements;
    const int32_t key = first_key + row;
    const Element* source = key < kv_len ? head + key * strides.token : nullptr;
    LoadPiece(shared + row * kRowBytes + piece % kPieces * 16, source, column, head_dim, aligned, data);
  }
}

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_LOAD_H_
