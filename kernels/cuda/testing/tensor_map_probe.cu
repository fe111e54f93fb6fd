#include "kernels/cuda/ptx/barrier.h"
#include "kernels/cuda/ptx/fence.h"
#include "kernels/cuda/ptx/tma.h"
#include "kernels/cuda/testing/tensor_map_probe.h"

namespace tessera::cuda {
namespace {

constexpr int kSharedBytes = 97 * 1024;

template <bool kQueries>
__global__ void Probe(const BoxProbe probe) {
  extern __shared__ unsigned char dynamic_shared[];
  __shared__ uint64_t full;
  unsigned char* box = dynamic_shared + (1024 - ptx::SharedAddress(dynamic_shared) % 1024) % 1024;
  const int bytes = probe.slabs * probe.slab_bytes;
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) box[i] = kUnloaded;
  if (threadIdx.x == 0) {
    ptx::BarrierInit(&full, 1);
    ptx::FenceBarrierInit();
    ptx::FenceTensorMapAcquire(probe.map);
    ptx::TmaPrefetchMap(probe.map);
  }
  ptx::FenceProxyAsyncShared();
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::BarrierArriveExpect(&full, probe.slabs * probe.box_bytes);
    for (int slab = 0; slab < probe.slabs; ++slab) {
      unsigned char* shared = box + slab * probe.slab_bytes;
      if (kQueries) {
        ptx::TmaLoad4d(shared, probe.map, &full, ptx::kEvictFirst, slab * probe.slab_width, 0, probe.token, probe.head);
      } else {
        ptx::TmaLoad3d(shared, probe.map, &full, ptx::kEvictLast, slab * probe.slab_width, probe.token, probe.head);
      }
    }
  }
  ptx::BarrierWait(&full, 0);
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) probe.image[i] = box[i];
}

__global__ void Store(const BoxProbe probe) {
  extern __shared__ unsigned char dynamic_shared[];
  unsigned char* box = dynamic_shared + (1024 - ptx::SharedAddress(dynamic_shared) % 1024) % 1024;
  for (int i = threadIdx.x; i < probe.slabs * probe.slab_bytes; i += blockDim.x) box[i] = probe.image[i];
  ptx::FenceProxyAsyncShared();
  __syncthreads();
  if (threadIdx.x != 0) return;
  ptx::FenceTensorMapAcquire(probe.map);
  for (int slab = 0; slab < probe.slabs; ++slab) {
    ptx::TmaStore4d(probe.map, box + slab * probe.slab_bytes, slab * probe.slab_width, 0, probe.token, probe.head);
  }
  ptx::TmaStoreDrain();
}

template <bool kQueries>
cudaError_t Launch(const BoxProbe& probe) {
  const cudaError_t error =
      cudaFuncSetAttribute(Probe<kQueries>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  Probe<kQueries><<<1, 128, kSharedBytes>>>(probe);
  return cudaGetLastError();
}

}  // namespace

cudaError_t ProbeKeys(const BoxProbe& probe) { return Launch<false>(probe); }
cudaError_t ProbeQueries(const BoxProbe& probe) { return Launch<true>(probe); }

cudaError_t StoreOutputs(const BoxProbe& probe) {
  const cudaError_t error = cudaFuncSetAttribute(Store, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  Store<<<1, 128, kSharedBytes>>>(probe);
  return cudaGetLastError();
}

}  // namespace tessera::cuda
