// Moving registers between warpgroups (sm_90a). Every warp of the warpgroup executes it; counts are multiples of 8.
#ifndef TESSERA_KERNELS_CUDA_PTX_REGISTERS_H_
#define TESSERA_KERNELS_CUDA_PTX_REGISTERS_H_

namespace tessera::ptx {

// Blocks until that many registers a thread are free.
template <int kCount>
__device__ __forceinline__ void RegistersIncrease() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

template <int kCount>
__device__ __forceinline__ void RegistersDecrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

// threadIdx.x, read where it is called: what follows from it is then computed there too, and not kept in registers.
__device__ __forceinline__ int ThreadAnew() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

}  // namespace tessera::ptx

#endif  // TESSERA_KERNELS_CUDA_PTX_REGISTERS_H_
