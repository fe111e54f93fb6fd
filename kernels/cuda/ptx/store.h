// Stores of matrix fragments to shared memory.
#ifndef TESSERA_KERNELS_CUDA_PTX_STORE_H_
#define TESSERA_KERNELS_CUDA_PTX_STORE_H_

#include <cstdint>

namespace tessera::ptx {

// Four 8x8 matrices of 16-bit elements (sm_90); lane l gives the address of row l % 8 of matrix l / 8, 16 bytes. In
// each matrix lane 4 * g + t holds columns 2t and 2t + 1 of row g.
__device__ __forceinline__ void StoreMatrix(uint32_t shared_address, const uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(shared_address), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

}  // namespace tessera::ptx

#endif  // TESSERA_KERNELS_CUDA_PTX_STORE_H_
