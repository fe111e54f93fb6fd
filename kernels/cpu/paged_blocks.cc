#include "kernels/cpu/paged_blocks.h"

#include <stop_token>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/paged_blocks.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once for each target.
#include "hwy/highway.h"
#include "kernels/cpu/block_forward-inl.h"
#include "kernels/cpu/paged_tensors-inl.h"
#include "kernels/cpu/row_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {

// The parameters of one key head: fp8 K carries its scale in the scores'.
inline AttentionParams HeadParams(const PagedParams& params, const PagedSequence& sequence, int64_t kv_head) {
  AttentionParams head = params.attention;
  if (params.cache_dtype == CacheDType::kFloat8) head.scale *= sequence.layer.k_scales[kv_head];
  return head;
}

inline int64_t StackedRowCount(const AttentionParams& params, const PagedSequence& sequence) {
  return sequence.q_len * (params.q_heads / params.kv_heads);
}

void ForwardPagedBlockOnTarget(const PagedParams& params, const PagedSequence& sequence, const RowBlock& block,
                               Scratch& scratch, const std::stop_token& stop) {
  const PagedTensors tensors(params, sequence, block.kv_head);
  const MaskGeometry mask(params.attention.mask, sequence.q_len, sequence.kv_len);
  BlockForward<PagedTensors>(HeadParams(params, sequence, block.kv_head), mask, block, tensors, scratch).Run(stop);
}

void ForwardSplitOnTarget(const PagedParams& params, const PagedSequence& sequence, int64_t kv_head,
                          const KeyRange& split, const SplitPartial& partial, Scratch& scratch) {
  const PagedTensors tensors(params, sequence, kv_head);
  const MaskGeometry mask(params.attention.mask, sequence.q_len, sequence.kv_len);
  const AttentionParams head = HeadParams(params, sequence, kv_head);
  RowForward(head, mask, tensors, StackedRowCount(head, sequence), scratch).Run(split, partial);
}

void CombineSplitsOnTarget(const PagedParams& params, const PagedSequence& sequence, int64_t kv_head,
                           absl::Span<const SplitPartial> partials, Scratch& scratch) {
  const PagedTensors tensors(params, sequence, kv_head);
  const AttentionParams head = HeadParams(params, sequence, kv_head);
  SplitCombine(head, tensors, StackedRowCount(head, sequence), scratch).Run(partials);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {

HWY_EXPORT(ForwardPagedBlockOnTarget);
HWY_EXPORT(ForwardSplitOnTarget);
HWY_EXPORT(CombineSplitsOnTarget);

void ForwardPagedBlock(const PagedParams& params, const PagedSequence& sequence, const RowBlock& block,
                       Scratch& scratch, const std::stop_token& stop) {
  HWY_DYNAMIC_DISPATCH(ForwardPagedBlockOnTarget)(params, sequence, block, scratch, stop);
}

void ForwardSplit(const PagedParams& params, const PagedSequence& sequence, int64_t kv_head, const KeyRange& split,
                  const SplitPartial& partial, Scratch& scratch) {
  HWY_DYNAMIC_DISPATCH(ForwardSplitOnTarget)(params, sequence, kv_head, split, partial, scratch);
}

void CombineSplits(const PagedParams& params, const PagedSequence& sequence, int64_t kv_head,
                   absl::Span<const SplitPartial> partials, Scratch& scratch) {
  HWY_DYNAMIC_DISPATCH(CombineSplitsOnTarget)(params, sequence, kv_head, partials, scratch);
}

}  // namespace tessera
#endif  // HWY_ONCE
