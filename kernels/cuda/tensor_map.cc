#include "kernels/cuda/tensor_map.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/tile/slab_width.h"

namespace tessera::cuda {
namespace {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) == alignof(CUtensorMap));

constexpr uint64_t kElementBytes = 2;
constexpr int64_t kAlignment = 16;                // bytes, of addresses and strides
constexpr int64_t kMaxStride = int64_t{1} << 40;  // bytes

// The stride of a dimension of size 1 is never used but must still be legal.
uint64_t ByteStride(int64_t elements, int64_t size) {
  return size > 1 ? static_cast<uint64_t>(elements) * kElementBytes : static_cast<uint64_t>(kAlignment);
}

bool Encodable(int64_t stride, int64_t size) {
  if (size <= 1) return true;
  return stride < kMaxStride / static_cast<int64_t>(kElementBytes) &&
         stride * static_cast<int64_t>(kElementBytes) % kAlignment == 0;
}

}  // namespace

bool CopyEngineReads(const void* data, const Strides& strides, int64_t tokens, int64_t heads) {
  if (tokens == 0) return true;
  return reinterpret_cast<uintptr_t>(data) % kAlignment == 0 && Encodable(strides.token, tokens) &&
         Encodable(strides.head, heads);
}

bool CopyEngineReadsPages(const void* data, const Strides& strides, int64_t page_stride, int64_t page_tokens,
                          int64_t heads) {
  constexpr int64_t kPages = 2;  // there may be more than one
  return CopyEngineReads(data, strides, page_tokens, heads) && Encodable(page_stride, kPages);
}

absl::StatusOr<TensorMapEncoder> TensorMapEncoder::Create() {
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  constexpr unsigned kSince = 12000;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, kSince, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess || encode == nullptr) {
    return absl::UnavailableError("the driver has no cuTensorMapEncodeTiled");
  }
  return TensorMapEncoder(encode);
}

absl::Status TensorMapEncoder::EncodeQueries(const AttentionParams& params, const void* data, const Strides& strides,
                                             int64_t q_len, int group, int tokens, int kernel_head_dim,
                                             TensorMap* map) const {
  const uint64_t heads = static_cast<uint64_t>(params.q_heads / group);
  const uint64_t sizes[] = {static_cast<uint64_t>(params.head_dim), static_cast<uint64_t>(group),
                            static_cast<uint64_t>(q_len), heads};
  const uint64_t byte_strides[] = {ByteStride(strides.head, group), ByteStride(strides.token, q_len),
                                   ByteStride(strides.head * group, static_cast<int64_t>(heads))};
  const uint32_t box[] = {static_cast<uint32_t>(tile::SlabWidth(kernel_head_dim)), static_cast<uint32_t>(group),
                          static_cast<uint32_t>(tokens), 1};
  return Encode(params.dtype, 4, data, sizes, byte_strides, box, map);
}

absl::Status TensorMapEncoder::EncodeKeys(const AttentionParams& params, const void* data, const Strides& strides,
                                          int64_t kv_len, int tokens, int kernel_head_dim, TensorMap* map) const {
  const uint64_t sizes[] = {static_cast<uint64_t>(params.head_dim), static_cast<uint64_t>(kv_len),
                            static_cast<uint64_t>(params.kv_heads)};
  const uint64_t byte_strides[] = {ByteStride(strides.token, kv_len), ByteStride(strides.head, params.kv_heads)};
  const uint32_t box[] = {static_cast<uint32_t>(tile::SlabWidth(kernel_head_dim)), static_cast<uint32_t>(tokens), 1};
  return Encode(params.dtype, 3, data, sizes, byte_strides, box, map);
}

absl::Status TensorMapEncoder::EncodePages(const AttentionParams& params, const void* data, const Strides& strides,
                                           int64_t page_stride, int64_t page_tokens, int tokens, int kernel_head_dim,
                                           TensorMap* map) const {
  // How many pages there are is known to the device's page tables alone; every number that they can hold counts.
  constexpr int64_t kPages = std::numeric_limits<int32_t>::max();
  const uint64_t sizes[] = {static_cast<uint64_t>(params.head_dim), static_cast<uint64_t>(page_tokens),
                            static_cast<uint64_t>(params.kv_heads), static_cast<uint64_t>(kPages)};
  const uint64_t byte_strides[] = {ByteStride(strides.token, page_tokens), ByteStride(strides.head, params.kv_heads),
                                   ByteStride(page_stride, kPages)};
  const uint32_t box[] = {static_cast<uint32_t>(tile::SlabWidth(kernel_head_dim)), static_cast<uint32_t>(tokens), 1, 1};
  return Encode(params.dtype, 4, data, sizes, byte_strides, box, map);
}

absl::Status TensorMapEncoder::Encode(DType dtype, int rank, const void* data, const uint64_t* sizes,
                                      const uint64_t* byte_strides, const uint32_t* box, TensorMap* map) const {
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode_);
  const uint32_t element_strides[] = {1, 1, 1, 1};
  const CUresult result =
      encode(reinterpret_cast<CUtensorMap*>(map),
             dtype == DType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
             static_cast<uint32_t>(rank), const_cast<void*>(data), sizes, byte_strides, box, element_strides,
             CU_TENSOR_MAP_INTERLEAVE_NONE, box[0] == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    return absl::InternalError(absl::StrCat("the driver refused a tensor map: CUDA error ", static_cast<int>(result)));
  }
  return absl::OkStatus();
}

}  // namespace tessera::cuda
