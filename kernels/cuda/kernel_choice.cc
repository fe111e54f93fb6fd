#include "kernels/cuda/kernel_choice.h"

#include "kernels/cuda/page_box.h"
#include "kernels/cuda/pages_view.h"
#include "kernels/cuda/sm80/forward.h"
#include "kernels/cuda/sm90/forward.h"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/tile/slab_width.h"

namespace tessera::cuda {
namespace {

// Between the head sizes that kernels compute the next larger one is filled up with zeros.
struct Sm90aKernels {
  const ForwardKernelEntry& d64_tall;
  const ForwardKernelEntry& d64_short;
  const ForwardKernelEntry& d96;
  const ForwardKernelEntry& d128_wide;
  const ForwardKernelEntry& d128_narrow;
  const ForwardKernelEntry& d192;
  const ForwardKernelEntry& d256;
};

// Below these lengths the smaller tile's lesser waste outweighs what the larger one gains in each block (measured on
// one H200 at 1024, 4096 and 16384 keys, docs/hopper_forward.md).
constexpr int64_t kTallKeys = 2048;
constexpr int64_t kWideKeys = 4096;

const ForwardKernelEntry& Choose(const Sm90aKernels& kernels, const AttentionParams& params, int64_t kv_len) {
  const bool full = params.mask == Mask::Full();
  if (params.head_dim <= 64) return full || kv_len >= kTallKeys ? kernels.d64_tall : kernels.d64_short;
  if (params.head_dim <= 96) return kernels.d96;
  if (params.head_dim <= 128) return full && kv_len >= kWideKeys ? kernels.d128_wide : kernels.d128_narrow;
  if (params.head_dim <= 192) return kernels.d192;
  return kernels.d256;
}

struct Sm80Kernels {
  const ForwardKernelEntry& d64;
  const ForwardKernelEntry& d96;
  const ForwardKernelEntry& d128;
  const ForwardKernelEntry& d192;
  const ForwardKernelEntry& d256;
};

const ForwardKernelEntry& Choose(const Sm80Kernels& kernels, const AttentionParams& params) {
  if (params.head_dim <= 64) return kernels.d64;
  if (params.head_dim <= 96) return kernels.d96;
  if (params.head_dim <= 128) return kernels.d128;
  return params.head_dim <= 192 ? kernels.d192 : kernels.d256;
}

const ForwardKernelEntry& ChooseSm90a(const AttentionParams& params, int64_t kv_len) {
  using namespace sm90;
  if (params.dtype == DType::kFloat16) {
    return Choose({kForwardFp16D64Tall, kForwardFp16D64Short, kForwardFp16D96, kForwardFp16D128Wide,
                   kForwardFp16D128Narrow, kForwardFp16D192, kForwardFp16D256},
                  params, kv_len);
  }
  return Choose({kForwardBf16D64Tall, kForwardBf16D64Short, kForwardBf16D96, kForwardBf16D128Wide,
                 kForwardBf16D128Narrow, kForwardBf16D192, kForwardBf16D256},
                params, kv_len);
}

const ForwardKernelEntry& ChooseSm80(const AttentionParams& params) {
  using namespace sm80;
  switch (params.dtype) {
    case DType::kFloat16:
      return Choose(Sm80Kernels{kForwardFp16D64, kForwardFp16D96, kForwardFp16D128, kForwardFp16D192, kForwardFp16D256},
                    params);
    case DType::kBFloat16:
      return Choose(Sm80Kernels{kForwardBf16D64, kForwardBf16D96, kForwardBf16D128, kForwardBf16D192, kForwardBf16D256},
                    params);
    case DType::kFloat32:
      break;
  }
  return Choose(Sm80Kernels{kForwardFp32D64, kForwardFp32D96, kForwardFp32D128, kForwardFp32D192, kForwardFp32D256},
                params);
}

}  // namespace

absl::string_view Name(KernelFamily family) {
  switch (family) {
    case KernelFamily::kSm90a:
      return "sm90a";
    case KernelFamily::kSm80:
      return "sm80";
  }
  return "unknown";
}

KernelFamily FamilyOf(int compute_capability_major, int compute_capability_minor) {
  return compute_capability_major == 9 && compute_capability_minor == 0 ? KernelFamily::kSm90a : KernelFamily::kSm80;
}

bool Sm90aComputes(const AttentionParams& params, const SequenceView& sequence) {
  if (params.dtype == DType::kFloat32) return false;  // tensor cores would round the operands
  return CopyEngineReads(sequence.q, sequence.q_strides, sequence.q_len, params.q_heads) &&
         CopyEngineReads(sequence.k, sequence.k_strides, sequence.kv_len, params.kv_heads) &&
         CopyEngineReads(sequence.v, sequence.v_strides, sequence.kv_len, params.kv_heads) &&
         CopyEngineReads(sequence.o, sequence.o_strides, sequence.q_len, params.q_heads);
}

bool Sm90aReadsPages(const PagedParams& params, const PagedSequence& sequence) {
  const AttentionParams& attention = params.attention;
  if (sequence.kv_len == 0 || params.cache_dtype != CacheDTypeFor(attention.dtype)) return false;
  const SequenceView view = ViewOfPages(params, sequence);
  const ForwardKernelEntry& kernel = ChooseSm90a(attention, sequence.kv_len);
  const int64_t key_bytes = tile::SlabWidth(kernel.head_dim) * SizeOf(attention.dtype);
  return Sm90aComputes(attention, view) &&
         CopyEngineReadsPages(view.k, view.k_strides, params.page_stride, params.page_tokens, attention.kv_heads) &&
         CopyEngineReadsPages(view.v, view.v_strides, params.page_stride, params.page_tokens, attention.kv_heads) &&
         BoxKeys(params.page_tokens, kernel.tile_keys) * key_bytes >= kLeastBoxBytes;
}

const ForwardKernelEntry& ChooseKernel(KernelFamily family, const AttentionParams& params,
                                       const SequenceView& sequence) {
  return family == KernelFamily::kSm90a ? ChooseSm90a(params, sequence.kv_len) : ChooseSm80(params);
}

}  // namespace tessera::cuda
