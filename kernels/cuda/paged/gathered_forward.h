// Many rows over pages that the forward kernels do not read: K and V are copied into contiguous memory, and they do the
// rest.
//
// The copy costs one reading and one writing of K and V, some tenths of what the products of a chunk of 512 rows take.
#ifndef TESSERA_KERNELS_CUDA_PAGED_GATHERED_FORWARD_H_
#define TESSERA_KERNELS_CUDA_PAGED_GATHERED_FORWARD_H_

#include <cstddef>

#include "absl/status/status.h"
#include "kernels/attention.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/paged_attention.h"

namespace tessera::cuda::paged {

// Bytes of memory for the copy of a sequence; not 0, for one without keys has rows to write, too. REQUIRES, as the next
// one: a sequence of RowPath::kForward.
size_t GatheredBytes(const PagedParams& params, const PagedSequence& sequence, const ForwardBackend& forward);

// Enqueues copy and forward on `stream`; new rows are in the pages by then. copy: GatheredBytes of the device, aligned
// to 256. `overlap`: GatherPages'. `stats`, if not null, is overwritten.
absl::Status ForwardGathered(const PagedParams& params, const PagedSequence& sequence, ForwardBackend& forward,
                             void* copy, StreamHandle stream, bool overlap, ForwardStats* stats);

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_GATHERED_FORWARD_H_
