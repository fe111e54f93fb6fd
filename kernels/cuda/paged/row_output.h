// Where a row's outputs go, four columns at a time: to the tensors, or among the partial results of its split.
#ifndef TESSERA_KERNELS_CUDA_PAGED_ROW_OUTPUT_H_
#define TESSERA_KERNELS_CUDA_PAGED_ROW_OUTPUT_H_

#include <cstdint>

#include "kernels/cuda/paged/paged_work.h"
#include "kernels/cuda/paged/row_sums.h"

namespace tessera::cuda::paged {

// Divides and stores columns column .. column + 3 of a row; the lane of column 0 stores the LSE.
template <typename Element>
__device__ __forceinline__ void StoreFinal(const PagedLaunch& launch, const PagedWork& work, int row, int column,
                                           const float (&o)[4], const RowSums& sums) {
  const PagedEntry& entry = work.entry;
  const RowPlace place = work.Place(launch, row);
  const float factor = Inverse(sums.sum) * work.value_scale;
  Element* to = static_cast<Element*>(entry.o) + place.token * entry.o_strides.token +
                place.q_head * entry.o_strides.head + column;
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = static_cast<Element>(o[i] * factor);
  if (column == 0 && entry.lse != nullptr) {
    entry.lse[place.token * entry.lse_strides.token + place.q_head * entry.lse_strides.head] =
        LogSumExp(sums, work.scores.factor_log2);
  }
}

// The same, undivided, into the split's partial result.
__device__ __forceinline__ void StorePartial(const PagedLaunch& launch, const PagedWork& work, int row, int column,
                                             const float (&o)[4], const RowSums& sums) {
  float* partial = work.Partial(launch, work.split);
  *reinterpret_cast<float4*>(partial + row * launch.head_dim + column) = {o[0], o[1], o[2], o[3]};
  if (column == 0) reinterpret_cast<RowSums*>(partial + work.rows * launch.head_dim)[row] = sums;
}

// What this block has of a row: all of it where its lane has one split.
template <typename Element>
__device__ __forceinline__ void StoreRow(const PagedLaunch& launch, const PagedWork& work, int row, int column,
                                         const float (&o)[4], const RowSums& sums) {
  if (work.entry.splits == 1) {
    StoreFinal<Element>(launch, work, row, column, o, sums);
  } else {
    StorePartial(launch, work, row, column, o, sums);
  }
}

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_ROW_OUTPUT_H_
