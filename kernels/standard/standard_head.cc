#include "kernels/standard/standard_head.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/standard/standard_head.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once for each target.
#include "hwy/highway.h"
#include "kernels/standard/standard_head-inl.h"

#if HWY_ONCE
namespace tessera {

HWY_EXPORT(StandardHeadOfType);

bool StandardHead(const AttentionParams& params, const SequenceView& sequence, int64_t head,
                  StandardWorkspace& workspace) {
  return HWY_DYNAMIC_DISPATCH(StandardHeadOfType)(params, sequence, head, workspace);
}

}  // namespace tessera
#endif  // HWY_ONCE
