// Launching the kernels for one element type; each type has a .cu of its own.
#ifndef TESSERA_KERNELS_CUDA_STANDARD_LAUNCH_H_
#define TESSERA_KERNELS_CUDA_STANDARD_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/sm80/alignment.h"
#include "kernels/cuda/standard/kernels.h"

namespace tessera::cuda::standard {

template <typename Element>
cudaError_t LaunchStandard(const StandardLaunch& launch, cudaStream_t stream) {
  const SequenceShape& shape = launch.entry.shape;
  if (shape.q_len == 0 || launch.heads == 0) return cudaSuccess;
  const auto blocks = [](int64_t count, int64_t size) { return static_cast<unsigned>((count + size - 1) / size); };
  const auto heads = static_cast<unsigned>(launch.heads);
  const dim3 warp_rows(blocks(shape.q_len, kRowThreads / 32), 1, heads);
  if (!sm80::IsAligned<Element>(launch.entry) || shape.kv_len == 0) {
    RowsKernel<Element><<<warp_rows, kRowThreads, 0, stream>>>(launch, true);
    return cudaGetLastError();
  }

  using Sums = Accumulator<Element>;
  constexpr int kScoresShared = kStages * kStageBytes<Element, typename Sums::BTransposedTile>;
  constexpr int kOutputsShared = kStages * kStageBytes<Element, typename Sums::BTile>;
  cudaError_t error =
      cudaFuncSetAttribute(ScoresKernel<Element>, cudaFuncAttributeMaxDynamicSharedMemorySize, kScoresShared);
  if (error != cudaSuccess) return error;
  error = cudaFuncSetAttribute(OutputsKernel<Element>, cudaFuncAttributeMaxDynamicSharedMemorySize, kOutputsShared);
  if (error != cudaSuccess) return error;

  const unsigned row_tiles = blocks(shape.q_len, kRows);
  ScoresKernel<Element>
      <<<dim3(blocks(shape.kv_len, kColumns), row_tiles, heads), kThreads, kScoresShared, stream>>>(launch);
  SoftmaxKernel<Element><<<dim3(static_cast<unsigned>(shape.q_len), 1, heads), kRowThreads, 0, stream>>>(launch);
  OutputsKernel<Element>
      <<<dim3(blocks(launch.head_dim, kColumns), row_tiles, heads), kThreads, kOutputsShared, stream>>>(launch);
  RowsKernel<Element><<<warp_rows, kRowThreads, 0, stream>>>(launch, false);
  return cudaGetLastError();
}

}  // namespace tessera::cuda::standard

#endif  // TESSERA_KERNELS_CUDA_STANDARD_LAUNCH_H_
