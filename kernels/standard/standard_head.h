// Standard attention of one query head, on the best SIMD target of this machine.
#ifndef TESSERA_KERNELS_STANDARD_STANDARD_HEAD_H_
#define TESSERA_KERNELS_STANDARD_STANDARD_HEAD_H_

#include <cstdint>

#include "kernels/attention.h"

namespace tessera {

// False where memory for the scores cannot be had; nothing is written then.
// REQUIRES: arguments that ValidateParams and ValidateSequence accept.
bool StandardHead(const AttentionParams& params, const SequenceView& sequence, int64_t head);

}  // namespace tessera

#endif  // TESSERA_KERNELS_STANDARD_STANDARD_HEAD_H_
