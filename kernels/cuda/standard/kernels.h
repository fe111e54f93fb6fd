// The kernels of standard attention. blockIdx.z counts the launch's heads.
#ifndef TESSERA_KERNELS_CUDA_STANDARD_KERNELS_H_
#define TESSERA_KERNELS_CUDA_STANDARD_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/exact_score.h"
#include "kernels/cuda/key_range.h"
#include "kernels/cuda/online_softmax.h"
#include "kernels/cuda/row_repair.h"
#include "kernels/cuda/standard/product.h"
#include "kernels/cuda/standard/standard.h"

namespace tessera::cuda::standard {

inline constexpr int kRowThreads = 128;  // of a block that works on one row of scores

// One head's tensors as matrices.
template <typename Element>
struct HeadView {
  Matrix<Element> q, k, v;
  Element* scores;
  int64_t score_pitch;
  int32_t q_head, kv_head;

  __device__ __forceinline__ HeadView(const StandardLaunch& launch, int32_t index) {
    const SequenceEntry& entry = launch.entry;
    q_head = launch.first_head + index;
    kv_head = q_head / entry.shape.kv_ratio;
    q = Of(entry.q, entry.q_strides, q_head, entry.shape.q_len, launch.head_dim);
    k = Of(entry.k, entry.k_strides, kv_head, entry.shape.kv_len, launch.head_dim);
    v = Of(entry.v, entry.v_strides, kv_head, entry.shape.kv_len, launch.head_dim);
    score_pitch = ScorePitch(entry.shape.kv_len, sizeof(Element));
    scores = static_cast<Element*>(launch.scores) + index * entry.shape.q_len * score_pitch;
  }

  static __device__ __forceinline__ Matrix<Element> Of(const void* base, const TensorStrides& strides, int32_t head,
                                                       int32_t rows, int32_t columns) {
    return {static_cast<const Element*>(base) + head * strides.head, strides.token, rows, columns};
  }
};

// scores[row, key] = map(q[row] . k[key]), -inf where the row does not see the key. One block a tile: x keys, y rows.
template <typename Element>
__global__ void __launch_bounds__(kThreads) ScoresKernel(const __grid_constant__ StandardLaunch launch) {
  using Sums = Accumulator<Element>;
  using BTile = typename Sums::BTransposedTile;
  extern __shared__ __align__(16) unsigned char shared[];
  const HeadView<Element> head(launch, blockIdx.z);
  const int32_t first_row = blockIdx.y * kRows;
  const int32_t first_key = blockIdx.x * kColumns;
  Sums sums;
  MultiplySlices<BTile>(
      ptx::SharedAddress(shared), head.q, first_row,
      [&](uint32_t tile, int64_t slice) { CopyTile<BTile>(tile, head.k, first_key, slice * Sums::kDepth); },
      [&](uint32_t a, uint32_t b) { sums.AddTransposed(a, b); });

  const SequenceShape& shape = launch.entry.shape;
  sums.ForEachPair([&](int row, int column, float2 pair) {
    const int32_t token = first_row + row;
    const int32_t key = first_key + column;
    if (token >= shape.q_len || key >= head.score_pitch) return;
    const KeyRange visible = VisibleKeys(token, shape.q_len, shape.kv_len, launch.left, launch.right);
    const float scores[2] = {ExactScore(launch.score_map, pair.x), ExactScore(launch.score_map, pair.y)};
    // A positive scale is what the map leaves to factor_log2.
    const float factor = launch.score_map.factor_log2 * kLn2;
    Element* place = head.scores + token * head.score_pitch + key;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const bool sees = key + i >= visible.begin && key + i < visible.end;
      place[i] = static_cast<Element>(sees ? scores[i] * factor : -INFINITY);
    }
  });
}

// Max and sum of exp(score - max) over part of a row.
struct RowSums {
  float m = -INFINITY;
  float l = 0.0f;

  __device__ __forceinline__ void Add(float m2, float l2) {
    const float next_m = fmaxf(m, m2);
    if (next_m != -INFINITY) {
      l = l * ptx::Exp2((m - next_m) * kLog2E) + l2 * ptx::Exp2((m2 - next_m) * kLog2E);
    } else {
      l += l2;
    }
    m = next_m;
  }
};

// Combined over the block, the same for all threads.
__device__ __forceinline__ RowSums BlockSums(RowSums sums) {
  __shared__ RowSums of_warp[kRowThreads / 32];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sums.Add(__shfl_xor_sync(0xffffffffu, sums.m, distance), __shfl_xor_sync(0xffffffffu, sums.l, distance));
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sums;
  __syncthreads();
  sums = of_warp[0];
  for (int warp = 1; warp < kRowThreads / 32; ++warp) sums.Add(of_warp[warp].m, of_warp[warp].l);
  return sums;
}

// scores -> probabilities in place, and the LSE. One block a row: x rows.
template <typename Element>
__global__ void __launch_bounds__(kRowThreads) SoftmaxKernel(const __grid_constant__ StandardLaunch launch) {
  constexpr int kVector = 16 / sizeof(Element);
  struct alignas(16) Vector {
    Element element[kVector];
  };
  const HeadView<Element> head(launch, blockIdx.z);
  const SequenceShape& shape = launch.entry.shape;
  const int32_t token = blockIdx.x;
  Vector* row = reinterpret_cast<Vector*>(head.scores + token * head.score_pitch);
  const int64_t vectors = head.score_pitch / kVector;

  RowSums sums;
  for (int64_t i = threadIdx.x; i < vectors; i += kRowThreads) {
    const Vector scores = row[i];
    float m = static_cast<float>(scores.element[0]);
#pragma unroll
    for (int j = 1; j < kVector; ++j) m = fmaxf(m, static_cast<float>(scores.element[j]));
    float l = 0.0f;
    const float offset = m == -INFINITY ? 0.0f : m;
#pragma unroll
    for (int j = 0; j < kVector; ++j) l += ptx::Exp2((static_cast<float>(scores.element[j]) - offset) * kLog2E);
    sums.Add(m, l);
  }
  sums = BlockSums(sums);

  const float inverse = sums.l == 0.0f ? 0.0f : 1.0f / sums.l;
  const float offset = sums.m == -INFINITY ? 0.0f : sums.m;
  for (int64_t i = threadIdx.x; i < vectors; i += kRowThreads) {
    Vector values = row[i];
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      const float exponential = ptx::Exp2((static_cast<float>(values.element[j]) - offset) * kLog2E);
      values.element[j] = static_cast<Element>(exponential * inverse);
    }
    row[i] = values;
  }
  if (threadIdx.x == 0 && shape.lse != nullptr) {
    shape.lse[token * shape.lse_strides.token + head.q_head * shape.lse_strides.head] =
        sums.l == 0.0f ? -INFINITY : sums.m + logf(sums.l);
  }
}

// o = probabilities v. One block a tile: x columns, y rows.
template <typename Element>
__global__ void __launch_bounds__(kThreads) OutputsKernel(const __grid_constant__ StandardLaunch launch) {
  using Sums = Accumulator<Element>;
  using BTile = typename Sums::BTile;
  extern __shared__ __align__(16) unsigned char shared[];
  const HeadView<Element> head(launch, blockIdx.z);
  const SequenceShape& shape = launch.entry.shape;
  const int32_t first_row = blockIdx.y * kRows;
  const int32_t first_column = blockIdx.x * kColumns;
  const Matrix<Element> probabilities = {head.scores, head.score_pitch, shape.q_len, head.score_pitch};
  Sums sums;
  MultiplySlices<BTile>(
      ptx::SharedAddress(shared), probabilities, first_row,
      [&](uint32_t tile, int64_t slice) { CopyTile<BTile>(tile, head.v, slice * Sums::kDepth, first_column); },
      [&](uint32_t a, uint32_t b) { sums.Add(a, b); });

  sums.ForEachPair([&](int row, int column, float2 pair) {
    const int32_t token = first_row + row;
    if (token >= shape.q_len || first_column + column >= launch.head_dim) return;
    Element* place = static_cast<Element*>(shape.o) + token * shape.o_strides.token +
                     head.q_head * shape.o_strides.head + first_column + column;
    place[0] = static_cast<Element>(pair.x);
    place[1] = static_cast<Element>(pair.y);
  });
}

// Rows whose output is not finite, or all rows, without the score matrix; with all rows their LSE too. One warp a row.
template <typename Element>
__global__ void __launch_bounds__(kRowThreads)
    RowsKernel(const __grid_constant__ StandardLaunch launch, bool all_rows) {
  const SequenceShape& shape = launch.entry.shape;
  const int lane = threadIdx.x % 32;
  const int32_t token = blockIdx.x * (kRowThreads / 32) + threadIdx.x / 32;
  if (token >= shape.q_len) return;
  const int32_t q_head = launch.first_head + blockIdx.z;
  const Element* o =
      static_cast<const Element*>(shape.o) + token * shape.o_strides.token + q_head * shape.o_strides.head;
  bool finite = !all_rows;
  for (int column = lane; column < launch.head_dim && finite; column += 32) {
    finite = isfinite(static_cast<float>(o[column]));
  }
  if (__all_sync(0xffffffffu, finite)) return;
  const KeyRange visible = VisibleKeys(token, shape.q_len, shape.kv_len, launch.left, launch.right);
  const float lse = RepairRow<Element>(launch.entry, token, q_head, q_head / shape.kv_ratio, launch.head_dim,
                                       launch.score_map, visible);
  if (all_rows && lane == 0 && shape.lse != nullptr) {
    shape.lse[token * shape.lse_strides.token + q_head * shape.lse_strides.head] = lse;
  }
}

}  // namespace tessera::cuda::standard

#endif  // TESSERA_KERNELS_CUDA_STANDARD_KERNELS_H_
