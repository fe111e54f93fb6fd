// Turns a batch into the table that a forward kernel works from: who is computed in which order, and which heads share
// tiles. Every choice depends on the sequence alone, never on its batchmates, except the order.
#ifndef TESSERA_KERNELS_CUDA_FORWARD_PLAN_H_
#define TESSERA_KERNELS_CUDA_FORWARD_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/attention.h"
#include "kernels/cuda/forward_kernel_entry.h"
#include "kernels/cuda/forward_table.h"
#include "kernels/cuda/pages_view.h"
#include "kernels/cuda/tensor_map.h"

namespace tessera::cuda {

struct ForwardPlan {
  std::vector<SequenceEntry> sequences;  // those with queries, longest first
  std::vector<PageMaps> page_maps;       // of each of them, or none; the entries do not point there yet
  std::vector<TileSection> sections;
  uint32_t tile_count = 0;
};

// pages: of each sequence, or none: K and V are contiguous. encoder: null for kernels that read without tensor maps.
// INVALID_ARGUMENT for lengths above kMaxLength or more tiles than 2^31. REQUIRES: validated params and sequences;
// pages that Sm90aReadsPages accepts, and an encoder for them.
absl::StatusOr<ForwardPlan> PlanForward(const AttentionParams& params, absl::Span<const SequenceView> sequences,
                                        absl::Span<const PagesView> pages, const ForwardKernelEntry& kernel,
                                        const TensorMapEncoder* encoder);

// A mask's side as the kernels take it.
int32_t ClampSide(int64_t side);

// Query heads that share tiles: all of a key head's where that takes fewer tiles than one by one, else 1.
int StackedHeads(const AttentionParams& params, int64_t q_len, int tile_rows);

// Tiles computed and skipped, useful work and modelled traffic of one sequence.
ForwardStats ModelForward(const AttentionParams& params, const SequenceView& sequence,
                          const ForwardKernelEntry& kernel);

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_FORWARD_PLAN_H_
