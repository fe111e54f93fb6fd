// Bulk tensor copies by the copy engine (sm_90). A tensor map describes the global tensor, the box and the swizzle;
// coordinates count elements, innermost first; what lies outside the tensor reads as zero and is not written.
#ifndef TESSERA_KERNELS_CUDA_PTX_TMA_H_
#define TESSERA_KERNELS_CUDA_PTX_TMA_H_

#include <cstdint>

#include "kernels/cuda/ptx/barrier.h"

namespace tessera::ptx {

// L2 eviction hints, as the cache-policy words that createpolicy yields for a fraction of 1.
inline constexpr uint64_t kEvictFirst = 0x12F0000000000000;
inline constexpr uint64_t kEvictLast = 0x14F0000000000000;

__device__ __forceinline__ void TmaPrefetchMap(const void* tensor_map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(tensor_map) : "memory");
}

// global -> shared; completes `barrier` by the box's bytes.
__device__ __forceinline__ void TmaLoad3d(void* shared, const void* tensor_map, uint64_t* barrier, uint64_t policy,
                                          int32_t c0, int32_t c1, int32_t c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(SharedAddress(shared)),
      "l"(tensor_map), "r"(SharedAddress(barrier)), "r"(c0), "r"(c1), "r"(c2), "l"(policy)
      : "memory");
}

__device__ __forceinline__ void TmaLoad4d(void* shared, const void* tensor_map, uint64_t* barrier, uint64_t policy,
                                          int32_t c0, int32_t c1, int32_t c2, int32_t c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(SharedAddress(shared)),
      "l"(tensor_map), "r"(SharedAddress(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
      : "memory");
}

}  // namespace tessera::ptx

#endif  // TESSERA_KERNELS_CUDA_PTX_TMA_H_
