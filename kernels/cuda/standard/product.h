// The two large products as matrix products of one thread block a result tile, depth slices copied two stages deep.
#ifndef TESSERA_KERNELS_CUDA_STANDARD_PRODUCT_H_
#define TESSERA_KERNELS_CUDA_STANDARD_PRODUCT_H_

#include <cstdint>

#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/barrier.h"
#include "kernels/cuda/sm80/copy_rows.h"
#include "kernels/cuda/standard/accumulator.h"

namespace tessera::cuda::standard {

// A row-major matrix in global memory; beyond its rows and columns it reads as zero. Rows start at multiples of 16
// bytes.
template <typename Element>
struct Matrix {
  const Element* data;
  int64_t row_stride;  // elements
  int64_t rows;
  int64_t columns;
};

// Starts copying the tile whose corner is (row, column).
template <typename Tile>
__device__ __forceinline__ void CopyTile(uint32_t shared, const Matrix<typename Tile::Element>& matrix, int64_t row,
                                         int64_t column) {
  using Copy = sm80::RowCopy<Tile, kThreads>;
  constexpr int64_t kElementBytes = sizeof(typename Tile::Element);
  const int64_t rest = matrix.columns - column;
  const int valid_bytes =
      static_cast<int>((rest < Tile::kHeadDim ? rest : Tile::kHeadDim) * kElementBytes) - Copy::FirstByte();
#pragma unroll
  for (int pass = 0; pass < Copy::kPasses; ++pass) {
    const int64_t source_row = row + Copy::FirstRow() + pass * Copy::kRowsPerPass;
    const auto* source = reinterpret_cast<const unsigned char*>(matrix.data) +
                         (source_row * matrix.row_stride + column) * kElementBytes + Copy::FirstByte();
    Copy::Row(Copy::FirstChunk(shared), pass, source, source_row < matrix.rows, valid_bytes);
  }
}

template <typename Element, typename BTile>
inline constexpr int kStageBytes = Accumulator<Element>::ATile::kBytes + BTile::kBytes;

inline constexpr int kStages = 2;

// sums += A[row.., :] B, where slice s of B is the BTile that copy_b(address, s) fetches and add(a_tile, b_tile) uses.
template <typename BTile, typename Element, typename CopyB, typename Add>
__device__ __forceinline__ void MultiplySlices(uint32_t shared, const Matrix<Element>& a, int64_t row, CopyB copy_b,
                                               Add add) {
  using Sums = Accumulator<Element>;
  const int64_t slices = (a.columns + Sums::kDepth - 1) / Sums::kDepth;
  const auto stage = [&](int64_t slice) {
    return shared + static_cast<uint32_t>(slice % kStages) * kStageBytes<Element, BTile>;
  };
  const auto fetch = [&](int64_t slice) {
    if (slice < slices) {
      CopyTile<typename Sums::ATile>(stage(slice), a, row, slice * Sums::kDepth);
      copy_b(stage(slice) + Sums::ATile::kBytes, slice);
    }
    ptx::AsyncCopyCommit();
  };
  fetch(0);
  for (int64_t slice = 0; slice < slices; ++slice) {
    fetch(slice + 1);
    ptx::AsyncCopyWait<1>();
    __syncthreads();
    add(stage(slice), stage(slice) + Sums::ATile::kBytes);
    __syncthreads();
  }
}

}  // namespace tessera::cuda::standard

#endif  // TESSERA_KERNELS_CUDA_STANDARD_PRODUCT_H_
