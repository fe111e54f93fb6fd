// mbarrier objects in shared memory, and the numbered barriers of a block. One instruction each.
//
// Shared-memory addresses are 32-bit offsets into the shared window, from SharedAddress().
#ifndef TESSERA_KERNELS_CUDA_PTX_BARRIER_H_
#define TESSERA_KERNELS_CUDA_PTX_BARRIER_H_

#include <cstdint>

namespace tessera::ptx {

__device__ __forceinline__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// `arrivals` per phase. By one thread, followed by FenceBarrierInit and a block barrier before others use it.
__device__ __forceinline__ void BarrierInit(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void BarrierArrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}

// Arrives and announces `bytes` that bulk copies will complete on this phase.
__device__ __forceinline__ void BarrierArriveExpect(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(bytes)
               : "memory");
}

// True once the phase of parity `parity` has completed. May suspend the thread for a while.
__device__ __forceinline__ bool BarrierTryWait(uint64_t* barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(done)
      : "r"(SharedAddress(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

__device__ __forceinline__ void BarrierWait(uint64_t* barrier, uint32_t parity) {
  while (!BarrierTryWait(barrier, parity)) {
  }
}

// Block barrier number `id` (0 is __syncthreads) over `threads` threads: wait for all of them, or only be counted.
__device__ __forceinline__ void NamedBarrierSync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void NamedBarrierArrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace tessera::ptx

#endif  // TESSERA_KERNELS_CUDA_PTX_BARRIER_H_
