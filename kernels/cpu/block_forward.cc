#include "kernels/cpu/block_forward.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/block_forward.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once for each target.
#include "hwy/highway.h"
#include "kernels/cpu/block_forward-inl.h"
#include "kernels/cpu/strided_tensors-inl.h"
#include "kernels/half.h"
#include "kernels/mask.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {

template <typename T>
void ForwardBlockOfType(const AttentionParams& params, const SequenceView& sequence, const RowBlock& block,
                        Scratch& scratch, const std::stop_token& stop) {
  const StridedTensors<T> tensors(params, sequence, block.kv_head);
  const MaskGeometry mask(params.mask, sequence.q_len, sequence.kv_len);
  BlockForward<StridedTensors<T>>(params, mask, block, tensors, scratch).Run(stop);
}

void ForwardBlockOnTarget(const AttentionParams& params, const SequenceView& sequence, const RowBlock& block,
                          Scratch& scratch, const std::stop_token& stop) {
  switch (params.dtype) {
    case DType::kFloat32:
      return ForwardBlockOfType<float>(params, sequence, block, scratch, stop);
    case DType::kFloat16:
      return ForwardBlockOfType<Half>(params, sequence, block, scratch, stop);
    case DType::kBFloat16:
      return ForwardBlockOfType<BFloat16>(params, sequence, block, scratch, stop);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {

HWY_EXPORT(ForwardBlockOnTarget);

void ForwardBlock(const AttentionParams& params, const SequenceView& sequence, const RowBlock& block, Scratch& scratch,
                  const std::stop_token& stop) {
  HWY_DYNAMIC_DISPATCH(ForwardBlockOnTarget)(params, sequence, block, scratch, stop);
}

}  // namespace tessera
#endif  // HWY_ONCE
