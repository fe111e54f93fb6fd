#include "kernels/cpu/block_forward.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/block_forward.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once for each target.
#include "hwy/highway.h"
#include "kernels/cpu/block_forward-inl.h"

#if HWY_ONCE
namespace tessera {

HWY_EXPORT(ForwardBlockOnTarget);

void ForwardBlock(const AttentionParams& params, const SequenceView& sequence, const RowBlock& block, Scratch& scratch,
                  const std::stop_token& stop) {
  HWY_DYNAMIC_DISPATCH(ForwardBlockOnTarget)(params, sequence, block, scratch, stop);
}

}  // namespace tessera
#endif  // HWY_ONCE
