// Attention in double precision on the GPU, row by row: what the kernels are compared with.
#ifndef TESSERA_TESTS_GPU_REFERENCE_H_
#define TESSERA_TESTS_GPU_REFERENCE_H_

#include <cuda_runtime_api.h>

#include "kernels/attention.h"

namespace tessera::gpu_test {

enum class Rounding {
  kNone,      // the exact answer
  kStandard,  // standard attention: sums in fp32, scores and probabilities rounded to the element type
};

// One sequence. o: double, at the same element offsets as sequence.o; lse: double, likewise. Elements that attention
// does not write are left alone.
cudaError_t ReferenceForward(const AttentionParams& params, const SequenceView& sequence, Rounding rounding, double* o,
                             double* lse, cudaStream_t stream);

}  // namespace tessera::gpu_test

#endif  // TESSERA_TESTS_GPU_REFERENCE_H_
