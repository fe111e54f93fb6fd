// The portable forward kernel for fp32 elements: plain FFMA, so that products keep all 24 bits.
//
// One block a tile of 32 rows by 32 keys. Thread (y, x), y = thread / 8, x = thread % 8, owns rows 2y and 2y + 1: scores
// of keys x + 8 * j, and output columns 4 * x + 32 * c .. + 3. The eight threads of a row pair are neighbours in a warp.
#ifndef TESSERA_KERNELS_CUDA_SM80_FORWARD_FP32_KERNEL_H_
#define TESSERA_KERNELS_CUDA_SM80_FORWARD_FP32_KERNEL_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/forward_table.h"
#include "kernels/cuda/key_range.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/row_repair.h"
#include "kernels/cuda/sm80/load.h"
#include "kernels/cuda/tile_walk.h"

namespace tessera::cuda::sm80 {

template <int kHeadDim_>
struct ForwardFp32Traits {
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kTileRows = 32;
  static constexpr int kTileKeys = 32;
  static constexpr int kThreads = 128;
  static constexpr int kRowFloats = kHeadDim + 4;  // padded against bank conflicts
  static constexpr int kProbabilityFloats = kTileKeys + 1;
  static constexpr int kSharedBytes =
      ((kTileRows + 2 * kTileKeys) * kRowFloats + kTileRows * kProbabilityFloats) * static_cast<int>(sizeof(float));
};

__device__ __forceinline__ float EightMax(float value) {
#pragma unroll
  for (int distance = 1; distance < 8; distance *= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

__device__ __forceinline__ float EightSum(float value) {
#pragma unroll
  for (int distance = 1; distance < 8; distance *= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

template <typename Traits>
__device__ __forceinline__ void ScoresFp32(float (&s)[2][4], const float* q, const float* k, int x) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) s[i][j] = 0.0f;
  }
#pragma unroll 4
  for (int c = 0; c < Traits::kHeadDim; c += 4) {
    const float4 a[2] = {*reinterpret_cast<const float4*>(q + c),
                         *reinterpret_cast<const float4*>(q + Traits::kRowFloats + c)};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float4 b = *reinterpret_cast<const float4*>(k + (x + 8 * j) * Traits::kRowFloats + c);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        s[i][j] += a[i].x * b.x;
        s[i][j] += a[i].y * b.y;
        s[i][j] += a[i].z * b.z;
        s[i][j] += a[i].w * b.w;
      }
    }
  }
}

template <typename Traits>
__global__ void __launch_bounds__(Traits::kThreads) ForwardFp32Kernel(const __grid_constant__ ForwardLaunch launch) {
  constexpr int kHeadDim = Traits::kHeadDim;
  constexpr int kRowFloats = Traits::kRowFloats;
  constexpr int kColumnGroups = kHeadDim / 32;
  extern __shared__ __align__(16) float shared_floats[];
  float* const q_shared = shared_floats;
  float* const k_shared = q_shared + Traits::kTileRows * kRowFloats;
  float* const v_shared = k_shared + Traits::kTileKeys * kRowFloats;
  float* const p_shared = v_shared + Traits::kTileKeys * kRowFloats;

  const TilePlace place = PlaceTile(launch, blockIdx.x, Traits::kTileKeys);
  const SequenceEntry& entry = *place.entry;
  const SequenceShape& shape = entry.shape;
  const int32_t kv_head = place.head / shape.kv_ratio;
  const int x = threadIdx.x % 8;
  const int y = threadIdx.x / 8;

  const bool q_aligned = Aligned<float>(entry.q, entry.q_strides);
  for (int piece = threadIdx.x; piece < Traits::kTileRows * kHeadDim / 4; piece += Traits::kThreads) {
    const int row = piece / (kHeadDim / 4);
    const int column = piece % (kHeadDim / 4) * 4;
    int32_t token, q_head;
    const bool exists = RowOfTile(place, row, token, q_head);
    const float* source =
        static_cast<const float*>(entry.q) + token * entry.q_strides.token + q_head * entry.q_strides.head;
    LoadPiece(reinterpret_cast<unsigned char*>(q_shared + row * kRowFloats + column), exists ? source : nullptr, column,
              launch.head_dim, q_aligned, entry.q);
  }

  int32_t tokens[2], q_heads[2];
  bool exists[2];
  KeyRange keys[2];
  float m[2], l[2], o[2][kColumnGroups][4];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    exists[i] = RowOfTile(place, 2 * y + i, tokens[i], q_heads[i]);
    keys[i] = VisibleKeys(tokens[i], shape.q_len, shape.kv_len, launch.left, launch.right);
    m[i] = -INFINITY;
    l[i] = 0.0f;
#pragma unroll
    for (int c = 0; c < kColumnGroups; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) o[i][c][e] = 0.0f;
    }
  }

  const float factor = launch.score_map.factor_log2;
  for (int32_t block = place.blocks.end - 1; block >= place.blocks.begin; --block) {
    const int32_t first_key = block * Traits::kTileKeys;
    LoadKeyRows<float, Traits::kTileKeys, kHeadDim, kRowFloats * 4, Traits::kThreads>(
        reinterpret_cast<unsigned char*>(k_shared), entry.k, entry.k_strides, shape.kv_len, first_key, kv_head,
        launch.head_dim);
    LoadKeyRows<float, Traits::kTileKeys, kHeadDim, kRowFloats * 4, Traits::kThreads>(
        reinterpret_cast<unsigned char*>(v_shared), entry.v, entry.v_strides, shape.kv_len, first_key, kv_head,
        launch.head_dim);
    ptx::AsyncCopyCommit();
    ptx::AsyncCopyWait<0>();
    __syncthreads();

    float s[2][4];
    ScoresFp32<Traits>(s, q_shared + 2 * y * kRowFloats, k_shared, x);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      launch.score_map.Apply(s[i]);
      float block_max = -INFINITY;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int32_t key = first_key + x + 8 * j;
        if (key < keys[i].begin || key >= keys[i].end) s[i][j] = -INFINITY;
        block_max = fmaxf(block_max, s[i][j]);
      }
      const float next_m = fmaxf(m[i], EightMax(block_max));
      const float offset = next_m == -INFINITY ? 0.0f : next_m * factor;
      const float rescale = ptx::Exp2(m[i] * factor - offset);
      m[i] = next_m;
      float sum = 0.0f;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float p = ptx::Exp2(__fmaf_rn(s[i][j], factor, -offset));
        sum += p;
        p_shared[(2 * y + i) * Traits::kProbabilityFloats + x + 8 * j] = p;
      }
      l[i] = l[i] * rescale + sum;
#pragma unroll
      for (int c = 0; c < kColumnGroups; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) o[i][c][e] *= rescale;
      }
    }
    __syncwarp();
    for (int key = 0; key < Traits::kTileKeys; ++key) {
      const float p[2] = {p_shared[2 * y * Traits::kProbabilityFloats + key],
                          p_shared[(2 * y + 1) * Traits::kProbabilityFloats + key]};
#pragma unroll
      for (int c = 0; c < kColumnGroups; ++c) {
        const float4 v = *reinterpret_cast<const float4*>(v_shared + key * kRowFloats + 32 * c + 4 * x);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          o[i][c][0] += p[i] * v.x;
          o[i][c][1] += p[i] * v.y;
          o[i][c][2] += p[i] * v.z;
          o[i][c][3] += p[i] * v.w;
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float total = EightSum(l[i]);
    const float inverse = total == 0.0f ? 0.0f : 1.0f / total;
    float* row = static_cast<float*>(shape.o) + tokens[i] * shape.o_strides.token + q_heads[i] * shape.o_strides.head;
    bool finite = true;
#pragma unroll
    for (int c = 0; c < kColumnGroups; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float value = o[i][c][e] * inverse;
        const int column = 32 * c + 4 * x + e;
        finite = finite && isfinite(value);
        if (exists[i] && column < launch.head_dim) row[column] = value;
      }
    }
    if (x == 0 && exists[i] && shape.lse != nullptr) {
      shape.lse[tokens[i] * shape.lse_strides.token + q_heads[i] * shape.lse_strides.head] =
          total == 0.0f ? -INFINITY : m[i] * (factor * kLn2) + logf(total);
    }
    if (!place.blocks.any_masked()) continue;
    const uint32_t broken = __ballot_sync(0xffffffffu, exists[i] && !finite);
    for (int pair = 0; pair < 4; ++pair) {
      if ((broken >> 8 * pair & 0xffu) == 0) continue;
      const int32_t token = __shfl_sync(0xffffffffu, tokens[i], 8 * pair);
      const int32_t q_head = __shfl_sync(0xffffffffu, q_heads[i], 8 * pair);
      RepairRow<float>(entry, token, q_head, kv_head, launch.head_dim, launch.score_map,
                       VisibleKeys(token, shape.q_len, shape.kv_len, launch.left, launch.right));
    }
  }
}

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_FORWARD_FP32_KERNEL_H_
