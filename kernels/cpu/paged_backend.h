// The CPU's paged attention: decoding by splits of the keys, chunks of a prefill by the tiled forward.
#ifndef TESSERA_KERNELS_CPU_PAGED_BACKEND_H_
#define TESSERA_KERNELS_CPU_PAGED_BACKEND_H_

#include <memory>

#include "kernels/paged_attention.h"

namespace tessera {

// `threads` threads work on one call, the calling one among them; 0 means all cores that the process may use. Page
// tables are in host memory. Memory beside the tensors: a fixed amount for each thread (0.55 MiB), and the partial
// results of the decoding sequences' splits, (head_dim + 2) floats for each query head, row and split.
std::unique_ptr<PagedAttentionBackend> MakeCpuPagedBackend(int threads);

}  // namespace tessera

#endif  // TESSERA_KERNELS_CPU_PAGED_BACKEND_H_
