// The CPU backend: tiled attention with online softmax on SIMD vectors, spread over a thread pool by cost.
#ifndef TESSERA_KERNELS_CPU_CPU_BACKEND_H_
#define TESSERA_KERNELS_CPU_CPU_BACKEND_H_

#include <memory>

#include "kernels/attention.h"

namespace tessera {

// A backend named "cpu". `threads` threads work on one Forward call, the calling one among them; 0 means all cores that
// the process may use. Scratch memory is a fixed amount for each thread at work (0.55 MiB), whatever the lengths.
std::unique_ptr<AttentionBackend> MakeCpuBackend(int threads);

}  // namespace tessera

#endif  // TESSERA_KERNELS_CPU_CPU_BACKEND_H_
