// One box moved by the copy engine: into shared memory, whose bytes are handed back, or from there.
#ifndef TESSERA_KERNELS_CUDA_TESTING_TENSOR_MAP_PROBE_H_
#define TESSERA_KERNELS_CUDA_TESTING_TENSOR_MAP_PROBE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/forward_table.h"

namespace tessera::cuda {

// A box of `slabs` copies, each slab_width columns after the one before it. Slabs lie slab_bytes apart in shared memory
// and loads fill the first box_bytes of each; the rest is left as it was, all bytes kUnloaded.
struct BoxProbe {
  const TensorMap* map;  // in device memory
  int slabs;
  int slab_width;
  int slab_bytes;
  int box_bytes;
  int32_t token;
  int32_t head;
  unsigned char* image;  // [slabs * slab_bytes], device
};

inline constexpr unsigned char kUnloaded = 0xAB;

// By TmaLoad3d, a map of EncodeKeys; by TmaLoad4d, one of EncodeQueries. At most 96 KiB.
cudaError_t ProbeKeys(const BoxProbe& probe);
cudaError_t ProbeQueries(const BoxProbe& probe);

// Stores the image by TmaStore4d, a map of EncodeQueries.
cudaError_t StoreOutputs(const BoxProbe& probe);

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_TESTING_TENSOR_MAP_PROBE_H_
