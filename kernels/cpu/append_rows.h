// New rows of K and V into pages.
#ifndef TESSERA_KERNELS_CPU_APPEND_ROWS_H_
#define TESSERA_KERNELS_CPU_APPEND_ROWS_H_

#include "kernels/paged_attention.h"

namespace tessera {

// Writes the sequence's append_len rows of k and v, all key heads, and nothing else. Elements are stored as they are
// or, as fp8, divided by their head's scale and rounded to the nearest. REQUIRES: arguments that ValidatePagedBatch
// accepts.
void AppendRows(const PagedParams& params, const PagedSequence& sequence);

}  // namespace tessera

#endif  // TESSERA_KERNELS_CPU_APPEND_ROWS_H_
