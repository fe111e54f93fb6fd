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

// shared -> global, in the calling thread's current group of stores. What the box has outside the tensor is left out.
// Ordinary stores to `shared` need FenceProxyAsyncShared before.
__device__ __forceinline__ void TmaStore4d(const void* tensor_map, const void* shared, int32_t c0, int32_t c1,
                                           int32_t c2, int32_t c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(tensor_map),
               "r"(SharedAddress(shared)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}

// Ends the thread's group and waits until all its stores have read their shared memory, which may then be overwritten.
__device__ __forceinline__ void TmaStoreDrain() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

}  // namespace tessera::ptx

#endif  // TESSERA_KERNELS_CUDA_PTX_TMA_H_
