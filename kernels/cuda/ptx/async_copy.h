// Asynchronous copies by the threads themselves, global -> shared (sm_80).
#ifndef TESSERA_KERNELS_CUDA_PTX_ASYNC_COPY_H_
#define TESSERA_KERNELS_CUDA_PTX_ASYNC_COPY_H_

#include <cstdint>

namespace tessera::ptx {

// Copies 16 bytes, or writes 16 zero bytes and reads nothing where !valid. Both addresses are 16-byte aligned.
__device__ __forceinline__ void AsyncCopy16(uint32_t shared_address, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address), "l"(global), "r"(valid ? 16 : 0)
               : "memory");
}

// The same, of what nobody reads again soon: the L2 cache gives it up before other lines.
__device__ __forceinline__ void AsyncCopy16Once(uint32_t shared_address, const void* global, bool valid) {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));  // one for all copies of a kernel
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(shared_address), "l"(global),
               "r"(valid ? 16 : 0), "l"(policy)
               : "memory");
}

__device__ __forceinline__ void AsyncCopyCommit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `kPending` of this thread's committed groups are in flight.
template <int kPending>
__device__ __forceinline__ void AsyncCopyWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace tessera::ptx

#endif  // TESSERA_KERNELS_CUDA_PTX_ASYNC_COPY_H_
