// A thread's work on one fp32 tile: its rows against all their key blocks, last block first, as in mainloop.h.
#ifndef TESSERA_KERNELS_CUDA_SM80_FP32_MAINLOOP_H_
#define TESSERA_KERNELS_CUDA_SM80_FP32_MAINLOOP_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/exact_score.h"
#include "kernels/cuda/key_range.h"
#include "kernels/cuda/online_softmax.h"
#include "kernels/cuda/ptx/math.h"
#include "kernels/cuda/sm80/fp32_traits.h"
#include "kernels/cuda/sm80/row_tile.h"

namespace tessera::cuda::sm80 {

// Over the lanes that share rows.
__device__ __forceinline__ float RowMax(float value) {
#pragma unroll
  for (int distance = 1; distance < 8; distance *= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

__device__ __forceinline__ float RowSum(float value) {
#pragma unroll
  for (int distance = 1; distance < 8; distance *= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

template <typename Traits>
class Fp32Mainloop {
 public:
  using Ring = typename Traits::Ring;
  static constexpr int kRows = Traits::kThreadRows;
  static constexpr int kKeys = Traits::kThreadKeys;
  static constexpr int kChunks = Traits::kThreadChunks;

  float m[kRows];  // maximum of the row's scores
  float l[kRows];  // this thread's part of the row's sum
  float4 o[kRows][kChunks];

  // q_tile: the block's Q tile, complete for all threads.
  __device__ __forceinline__ Fp32Mainloop(const ForwardLaunch& launch, const RowTile& tile, const unsigned char* q_tile)
      : launch_(launch),
        tile_(tile),
        lane_(threadIdx.x % Traits::kColumnLanes),
        row_(threadIdx.x / Traits::kColumnLanes),
        q_(q_tile + Traits::QTile::Offset(row_, 0)) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      m[i] = -INFINITY;
      l[i] = 0.0f;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) o[i][c] = {0.0f, 0.0f, 0.0f, 0.0f};
    }
  }

  // By all threads of the block, on a ring that has been started.
  __device__ __forceinline__ void Run(const KeyBlocks& blocks, Ring& ring) {
    int32_t block = blocks.end - 1;
    for (; block >= blocks.begin && block >= blocks.whole_end; --block) Step<true>(block, ring);
    for (; block >= blocks.begin && block >= blocks.whole_begin; --block) Step<false>(block, ring);
    for (; block >= blocks.begin; --block) Step<true>(block, ring);
  }

 private:
  template <bool kMasked>
  __device__ __forceinline__ void Step(int32_t block, Ring& ring) {
    float s[kRows][kKeys];
    Scores(s, SharedPointer(ring.WaitKeys()));
    if constexpr (kMasked) Mask(s, block * Traits::kTileKeys);
    Softmax<kMasked>(s);
    AddOutputs(s, SharedPointer(ring.WaitValues()));
  }

  static __device__ __forceinline__ const unsigned char* SharedPointer(uint32_t address) {
    return static_cast<const unsigned char*>(__cvta_shared_to_generic(address));
  }

  static __device__ __forceinline__ float4 Load(const unsigned char* address) {
    return *reinterpret_cast<const float4*>(address);
  }

  __device__ __forceinline__ void Scores(float (&s)[kRows][kKeys], const unsigned char* k_tile) {
    const unsigned char* k = k_tile + Traits::KvTile::Offset(lane_, 0);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kKeys; ++j) s[i][j] = 0.0f;
    }
#pragma unroll 4
    for (int column = 0; column < Traits::kHeadDim; column += 4) {
      float4 query[kRows], key[kKeys];
#pragma unroll
      for (int i = 0; i < kRows; ++i) query[i] = Load(q_ + Traits::QTile::Offset(i * Traits::kRowLanes, column));
#pragma unroll
      for (int j = 0; j < kKeys; ++j) key[j] = Load(k + Traits::KvTile::Offset(j * Traits::kColumnLanes, column));
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kKeys; ++j) {
          s[i][j] = fmaf(query[i].x, key[j].x, s[i][j]);
          s[i][j] = fmaf(query[i].y, key[j].y, s[i][j]);
          s[i][j] = fmaf(query[i].z, key[j].z, s[i][j]);
          s[i][j] = fmaf(query[i].w, key[j].w, s[i][j]);
        }
      }
    }
    if (!launch_.score_map.applies) return;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kKeys; ++j) s[i][j] = ExactScore(launch_.score_map, s[i][j]);
    }
  }

  __device__ __forceinline__ void Mask(float (&s)[kRows][kKeys], int32_t first_key) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const KeyRange visible = tile_.VisibleTo(launch_, row_ + i * Traits::kRowLanes);
#pragma unroll
      for (int j = 0; j < kKeys; ++j) {
        const int32_t key = first_key + lane_ + j * Traits::kColumnLanes;
        if (key < visible.begin || key >= visible.end) s[i][j] = -INFINITY;
      }
    }
  }

  // Scores -> exponentials in place; brings O to the new maxima.
  template <bool kMasked>
  __device__ __forceinline__ void Softmax(float (&s)[kRows][kKeys]) {
    const float factor_log2 = launch_.score_map.factor_log2;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      float block_max = s[i][0];
#pragma unroll
      for (int j = 1; j < kKeys; ++j) block_max = fmaxf(block_max, s[i][j]);
      const float next_m = fmaxf(m[i], RowMax(block_max));
      // Both products are rounded, as in the scores' offsets, old and new: an FFMA would leave a difference.
      const float offset = kMasked && next_m == -INFINITY ? 0.0f : __fmul_rn(next_m, factor_log2);
      const float rescale = ptx::Exp2(__fmul_rn(m[i], factor_log2) - offset);
      m[i] = next_m;
      float sum = 0.0f;
#pragma unroll
      for (int j = 0; j < kKeys; ++j) {
        s[i][j] = ptx::Exp2(fmaf(s[i][j], factor_log2, -offset));
        sum += s[i][j];
      }
      l[i] = l[i] * rescale + sum;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        o[i][c] = {o[i][c].x * rescale, o[i][c].y * rescale, o[i][c].z * rescale, o[i][c].w * rescale};
      }
    }
  }

  // o += p V. The lane that holds a key's exponentials hands them to the other lanes of its rows.
  __device__ __forceinline__ void AddOutputs(const float (&p)[kRows][kKeys], const unsigned char* v_tile) {
    const unsigned char* v = v_tile + Traits::KvTile::Offset(0, 4 * lane_);
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
#pragma unroll 4
      for (int x = 0; x < Traits::kColumnLanes; ++x) {
        float weight[kRows];
#pragma unroll
        for (int i = 0; i < kRows; ++i) weight[i] = __shfl_sync(0xffffffffu, p[i][j], x, Traits::kColumnLanes);
#pragma unroll
        for (int c = 0; c < kChunks; ++c) {
          const float4 value = Load(v + Traits::KvTile::Offset(j * Traits::kColumnLanes + x, 32 * c));
#pragma unroll
          for (int i = 0; i < kRows; ++i) {
            o[i][c].x = fmaf(weight[i], value.x, o[i][c].x);
            o[i][c].y = fmaf(weight[i], value.y, o[i][c].y);
            o[i][c].z = fmaf(weight[i], value.z, o[i][c].z);
            o[i][c].w = fmaf(weight[i], value.w, o[i][c].w);
          }
        }
      }
    }
  }

  const ForwardLaunch& launch_;
  const RowTile& tile_;
  const int lane_;  // among those that share rows
  const int row_;   // the thread's first
  const unsigned char* q_;
};

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_FP32_MAINLOOP_H_
