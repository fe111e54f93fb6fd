// Which kernel computes a sequence of a paged call: the one place where types, head size, rows and alignment decide. It
// looks at the sequence alone, so its batchmates never change its bits.
#ifndef TESSERA_KERNELS_CUDA_PAGED_PAGED_CHOICE_H_
#define TESSERA_KERNELS_CUDA_PAGED_PAGED_CHOICE_H_

#include "kernels/cuda/paged/paged_kernel_entry.h"
#include "kernels/paged_attention.h"

namespace tessera::cuda::paged {

enum class RowPath {
  kForward,  // many rows: the forward kernels, over the pages or over a contiguous copy of K and V; not from fp8
  kNarrow,   // 16 stacked rows a block
  kWide,     // 32, for sequences with more than 16, of up to 128 columns
  kByRow,    // fp32, and tensors that 16-byte reads do not fit
};

// REQUIRES, of all: arguments that ValidatePagedBatch accepts.
RowPath PathOf(const PagedParams& params, const PagedSequence& sequence);
// REQUIRES: not kForward, which has none of its own.
const PagedKernelEntry& AttentionKernel(const PagedParams& params, RowPath path);
PagedLauncher AppendKernelFor(const PagedParams& params);

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_PAGED_CHOICE_H_
