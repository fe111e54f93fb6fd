// Turns sequences of a paged call into the table that one launch works from. How a sequence is cut depends on nothing
// but its own lengths, the parameters and the kernel that its path has.
#ifndef TESSERA_KERNELS_CUDA_PAGED_PAGED_PLAN_H_
#define TESSERA_KERNELS_CUDA_PAGED_PAGED_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/paged/paged_kernel_entry.h"
#include "kernels/paged_attention.h"

namespace tessera::cuda::paged {

struct PagedPlan {
  std::vector<PagedEntry> entries;    // of sequences that have rows, those of the dearest items first
  std::vector<uint32_t> first_items;  // of each entry
  std::vector<PagedEntry> appends;    // whose new rows have to be in the pages before the launch
  uint32_t item_count = 0;
  int32_t counter_count = 0;
  int64_t partial_floats = 0;  // of all partial results
};

// appends_itself: whether the kernel appends where it can, namely where each new row is read by one block.
// INVALID_ARGUMENT for lengths above kMaxLength, and for more items than 2^31. REQUIRES: what ValidatePagedBatch
// accepts.
absl::StatusOr<PagedPlan> PlanPaged(const PagedParams& params, absl::Span<const PagedSequence> sequences,
                                    const PagedKernelEntry& kernel, bool appends_itself);

// Pointers, strides and lengths of a sequence: all that appending its new rows needs.
PagedEntry Describe(const PagedParams& params, const PagedSequence& sequence);

// What attention of the sequence comes to. Tiles are counted in the kernel's row blocks by kSplitStep keys.
ForwardStats ModelPaged(const PagedParams& params, const PagedSequence& sequence, const PagedKernelEntry& kernel);

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_PAGED_PLAN_H_
