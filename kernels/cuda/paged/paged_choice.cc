#include "kernels/cuda/paged/paged_choice.h"

#include <cstdint>

#include "kernels/cuda/paged/decode.h"

namespace tessera::cuda::paged {
namespace {

constexpr int64_t kChunkBytes = 16;
constexpr int64_t kNarrowRows = 16;
constexpr int kWideHeadDim = 128;

uint64_t Bits(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
uint64_t Bits(const Strides& strides, int64_t element) {
  return static_cast<uint64_t>((strides.token | strides.head) * element);
}

// Whether every row of q and of the pages starts at a multiple of 16 bytes and ends at one.
bool IsAligned(const PagedParams& params, const PagedSequence& sequence) {
  const int64_t element = SizeOf(params.attention.dtype);
  const int64_t cached = SizeOf(params.cache_dtype);
  const uint64_t bits = Bits(sequence.q) | Bits(sequence.q_strides, element) | Bits(sequence.layer.k_pages) |
                        Bits(sequence.layer.v_pages) | Bits(params.strides, cached) |
                        static_cast<uint64_t>((params.page_stride | params.attention.head_dim) * cached);
  return bits % kChunkBytes == 0;
}

struct DecodeKernels {
  const PagedKernelEntry& narrow_d64;
  const PagedKernelEntry& wide_d64;
  const PagedKernelEntry& narrow_d128;
  const PagedKernelEntry& wide_d128;
  const PagedKernelEntry& narrow_d256;
};

const PagedKernelEntry& Choose(const DecodeKernels& kernels, int head_dim, bool wide) {
  if (head_dim <= 64) return wide ? kernels.wide_d64 : kernels.narrow_d64;
  if (head_dim <= 128) return wide ? kernels.wide_d128 : kernels.narrow_d128;
  return kernels.narrow_d256;
}

const PagedKernels& RowKernels(const PagedParams& params) {
  const bool fp8 = params.cache_dtype == CacheDType::kFloat8;
  switch (params.attention.dtype) {
    case DType::kFloat16:
      return fp8 ? kRowsFp16Fp8 : kRowsFp16;
    case DType::kBFloat16:
      return fp8 ? kRowsBf16Fp8 : kRowsBf16;
    case DType::kFloat32:
      break;
  }
  return fp8 ? kRowsFp32Fp8 : kRowsFp32;
}

}  // namespace

RowPath PathOf(const PagedParams& params, const PagedSequence& sequence) {
  const int64_t rows = sequence.q_len * (params.attention.q_heads / params.attention.kv_heads);
  if (rows > kMaxSplitRows && params.cache_dtype != CacheDType::kFloat8) return RowPath::kForward;
  if (params.attention.dtype == DType::kFloat32) return RowPath::kByRow;  // tensor cores would round the operands
  if (!IsAligned(params, sequence)) return RowPath::kByRow;
  return rows > kNarrowRows && params.attention.head_dim <= kWideHeadDim ? RowPath::kWide : RowPath::kNarrow;
}

const PagedKernelEntry& AttentionKernel(const PagedParams& params, RowPath path) {
  if (path == RowPath::kByRow) return RowKernels(params).by_row;
  const int head_dim = params.attention.head_dim;
  const bool wide = path == RowPath::kWide;
  const bool fp8 = params.cache_dtype == CacheDType::kFloat8;
  if (params.attention.dtype == DType::kFloat16) {
    return fp8 ? Choose({kDecodeFp16Fp8D64Narrow, kDecodeFp16Fp8D64Wide, kDecodeFp16Fp8D128Narrow,
                         kDecodeFp16Fp8D128Wide, kDecodeFp16Fp8D256Narrow},
                        head_dim, wide)
               : Choose({kDecodeFp16D64Narrow, kDecodeFp16D64Wide, kDecodeFp16D128Narrow, kDecodeFp16D128Wide,
                         kDecodeFp16D256Narrow},
                        head_dim, wide);
  }
  return fp8 ? Choose({kDecodeBf16Fp8D64Narrow, kDecodeBf16Fp8D64Wide, kDecodeBf16Fp8D128Narrow, kDecodeBf16Fp8D128Wide,
                       kDecodeBf16Fp8D256Narrow},
                      head_dim, wide)
             : Choose({kDecodeBf16D64Narrow, kDecodeBf16D64Wide, kDecodeBf16D128Narrow, kDecodeBf16D128Wide,
                       kDecodeBf16D256Narrow},
                      head_dim, wide);
}

PagedLauncher AppendKernelFor(const PagedParams& params) { return RowKernels(params).append; }

}  // namespace tessera::cuda::paged
