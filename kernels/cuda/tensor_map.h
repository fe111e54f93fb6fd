// Tensor maps for the copy engine, encoded by the driver. The driver is found through the runtime, so that nothing
// links against it and programs start on machines that have none.
#ifndef TESSERA_KERNELS_CUDA_TENSOR_MAP_H_
#define TESSERA_KERNELS_CUDA_TENSOR_MAP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/attention.h"
#include "kernels/cuda/forward_table.h"

namespace tessera::cuda {

// Encodes maps of 16-bit tensors with boxes of [.., tokens, slab width] (tile/slab_layout.h). Thread-safe.
class TensorMapEncoder {
 public:
  // UNAVAILABLE where the driver lacks the function.
  static absl::StatusOr<TensorMapEncoder> Create();

  // Queries or outputs: `group` consecutive heads are stacked within a token; box [1, tokens, group, slab].
  absl::Status EncodeQueries(const AttentionParams& params, const void* data, const Strides& strides, int64_t q_len,
                             int group, int tokens, int kernel_head_dim, TensorMap* map) const;

  // Keys or values; box [1, tokens, slab].
  absl::Status EncodeKeys(const AttentionParams& params, const void* data, const Strides& strides, int64_t kv_len,
                          int tokens, int kernel_head_dim, TensorMap* map) const;

  // Keys or values of a pool's pages, of whose tokens the first `page_tokens` are there; box [1, 1, tokens, slab]. A
  // page below 0 is outside.
  absl::Status EncodePages(const AttentionParams& params, const void* data, const Strides& strides, int64_t page_stride,
                           int64_t page_tokens, int tokens, int kernel_head_dim, TensorMap* map) const;

 private:
  explicit TensorMapEncoder(void* encode) : encode_(encode) {}

  absl::Status Encode(DType dtype, int rank, const void* data, const uint64_t* sizes, const uint64_t* byte_strides,
                      const uint32_t* box, TensorMap* map) const;

  void* encode_;  // cuTensorMapEncodeTiled
};

// Whether the copy engine can read and write this tensor: 16-byte aligned start and strides, strides under 2^40 bytes.
bool CopyEngineReads(const void* data, const Strides& strides, int64_t tokens, int64_t heads);

// The same for pages page_stride elements apart.
bool CopyEngineReadsPages(const void* data, const Strides& strides, int64_t page_stride, int64_t page_tokens,
                          int64_t heads);

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_TENSOR_MAP_H_
