// Which forward kernel computes a call: the one place where device, element type, head size, mask and layout decide.
#ifndef TESSERA_KERNELS_CUDA_KERNEL_CHOICE_H_
#define TESSERA_KERNELS_CUDA_KERNEL_CHOICE_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/attention.h"
#include "kernels/cuda/forward_kernel_entry.h"
#include "kernels/paged_attention.h"

namespace tessera::cuda {

enum class KernelFamily { kSm90a, kSm80 };

// "sm90a", "sm80".
absl::string_view Name(KernelFamily family);

// The fastest family that a device of this compute capability runs: the sm_90a instructions exist on 9.0 alone.
KernelFamily FamilyOf(int compute_capability_major, int compute_capability_minor);

// Whether `sequence` can be computed by the sm_90a kernels: 16-bit elements, and tensors that the copy engine and
// 16-byte stores can address. Looks at the sequence alone, so its batchmates never change which kernel computes it.
bool Sm90aComputes(const AttentionParams& params, const SequenceView& sequence);

// The kernel of a family for a sequence of a call with these params. Looks at the sequence alone, too. REQUIRES: the
// family computes params.dtype.
const ForwardKernelEntry& ChooseKernel(KernelFamily family, const AttentionParams& params,
                                       const SequenceView& sequence);

// Whether the sm_90a kernels read K and V of `sequence` out of its pages: what Sm90aComputes wants, of the pages too,
// and boxes of kLeastBoxBytes. Looks at the sequence alone. REQUIRES: params and sequence are valid.
bool Sm90aReadsPages(const PagedParams& params, const PagedSequence& sequence);

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_KERNEL_CHOICE_H_
