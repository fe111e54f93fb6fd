// Standard attention: all scores of a head are written to memory, then all probabilities. The baseline that the tiled
// kernels are compared with, in speed, in memory and in accuracy.
#ifndef TESSERA_KERNELS_STANDARD_STANDARD_H_
#define TESSERA_KERNELS_STANDARD_STANDARD_H_

#include <memory>

#include "kernels/attention.h"

namespace tessera {

// A backend named "standard". What it stores between its steps is in the call's dtype, as a framework's operators would
// have it: S = round(scale q.k), P = round(softmax(S)), o = round(P v); each step computes in float32. `threads`
// threads (0: all cores), one head each at a time; each holds 2 * q_len * kv_len elements. RESOURCE_EXHAUSTED where
// they cannot be had; some heads may have been written by then.
std::unique_ptr<AttentionBackend> MakeStandardBackend(int threads);

}  // namespace tessera

#endif  // TESSERA_KERNELS_STANDARD_STANDARD_H_
