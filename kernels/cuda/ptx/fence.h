// Fences between the generic proxy (ordinary loads and stores) and the asynchronous ones (bulk copies, wgmma).
#ifndef TESSERA_KERNELS_CUDA_PTX_FENCE_H_
#define TESSERA_KERNELS_CUDA_PTX_FENCE_H_

namespace tessera::ptx {

// After BarrierInit, before any other thread or the copy engine uses the barrier.
__device__ __forceinline__ void FenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// After ordinary stores to shared memory, before a bulk copy or wgmma reads them.
__device__ __forceinline__ void FenceProxyAsyncShared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Before the copy engine uses a tensor map that an earlier kernel wrote to global memory.
__device__ __forceinline__ void FenceTensorMapAcquire(const void* tensor_map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(tensor_map) : "memory");
}

// Waits until the grids this one depends on have finished and their writes are visible; at once if there are none.
__device__ __forceinline__ void GridDependencyWait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Lets dependent grids be scheduled; they still wait for this grid's end by GridDependencyWait.
__device__ __forceinline__ void GridDependencyLaunch() { asm volatile("griddepcontrol.launch_dependents;"); }

}  // namespace tessera::ptx

#endif  // TESSERA_KERNELS_CUDA_PTX_FENCE_H_
