// Giving up what the L2 cache holds (sm_80).
#ifndef TESSERA_KERNELS_CUDA_PTX_DISCARD_H_
#define TESSERA_KERNELS_CUDA_PTX_DISCARD_H_

namespace tessera::ptx {

inline constexpr int kCacheLineBytes = 128;

// The line's contents become indeterminate: it need not be written to memory. `line`: aligned to kCacheLineBytes.
__device__ __forceinline__ void DiscardLine(void* line) {
  asm volatile("discard.global.L2 [%0], 128;" ::"l"(line) : "memory");
}

}  // namespace tessera::ptx

#endif  // TESSERA_KERNELS_CUDA_PTX_DISCARD_H_
