#include <cstdint>

#include "kernels/cuda/paged/gather_pages.h"
#include "kernels/cuda/ptx/fence.h"

namespace tessera::cuda::paged {
namespace {

constexpr int kThreads = 128;
constexpr int kKeysABlock = 4;  // so that several reads of a thread are on their way

// The block copies its keys' rows of all heads, Unit by Unit.
template <typename Unit>
__global__ void __launch_bounds__(kThreads) GatherKernel(const __grid_constant__ PagedRowsView rows, Unit* k, Unit* v) {
#if __CUDA_ARCH__ >= 900
  // The first block in any case, so that this kernel does not end before the one that appends.
  const int32_t last_key = rows.first_key + static_cast<int32_t>(blockIdx.x) * kKeysABlock + kKeysABlock - 1;
  if (blockIdx.x == 0 || last_key >= rows.first_new) ptx::GridDependencyWait();
#endif
  const int32_t row_units = rows.row_bytes / static_cast<int32_t>(sizeof(Unit));
  const int32_t units = rows.kv_heads * row_units;
  int64_t from[kKeysABlock];
#pragma unroll
  for (int i = 0; i < kKeysABlock; ++i) {
    const int32_t key = rows.first_key + min(static_cast<int32_t>(blockIdx.x) * kKeysABlock + i, rows.keys - 1);
    const int32_t slot = key & ((1 << rows.page_shift) - 1);
    from[i] = rows.pages[key >> rows.page_shift] * rows.page_stride + slot * rows.token_stride;
  }
  for (int32_t unit = threadIdx.x; unit < units; unit += kThreads) {
    const int32_t head = unit / row_units;
    const int64_t offset = head * rows.head_stride + (unit - head * row_units) * static_cast<int64_t>(sizeof(Unit));
    Unit k_units[kKeysABlock], v_units[kKeysABlock];
#pragma unroll
    for (int i = 0; i < kKeysABlock; ++i) {
      k_units[i] = *reinterpret_cast<const Unit*>(static_cast<const unsigned char*>(rows.k_pages) + from[i] + offset);
      v_units[i] = *reinterpret_cast<const Unit*>(static_cast<const unsigned char*>(rows.v_pages) + from[i] + offset);
    }
#pragma unroll
    for (int i = 0; i < kKeysABlock; ++i) {
      const int64_t key = int64_t{blockIdx.x} * kKeysABlock + i;
      if (key >= rows.keys) break;
      k[key * units + unit] = k_units[i];
      v[key * units + unit] = v_units[i];
    }
  }
}

bool IsAligned(const PagedRowsView& rows) {
  const uint64_t bits = reinterpret_cast<uintptr_t>(rows.k_pages) | reinterpret_cast<uintptr_t>(rows.v_pages) |
                        static_cast<uint64_t>(rows.page_stride | rows.token_stride | rows.head_stride | rows.row_bytes);
  return bits % sizeof(uint4) == 0;
}

template <typename Unit>
cudaError_t Launch(const PagedRowsView& rows, void* k, void* v, bool overlap, cudaStream_t stream) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((rows.keys + kKeysABlock - 1) / kKeysABlock);
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, GatherKernel<Unit>, rows, static_cast<Unit*>(k), static_cast<Unit*>(v));
}

}  // namespace

cudaError_t GatherPages(const PagedRowsView& rows, void* k, void* v, bool overlap, cudaStream_t stream) {
  if (rows.keys == 0) return cudaSuccess;
  return IsAligned(rows) ? Launch<uint4>(rows, k, v, overlap, stream) : Launch<uint16_t>(rows, k, v, overlap, stream);
}

}  // namespace tessera::cuda::paged
