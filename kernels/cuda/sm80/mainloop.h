// A warp's work on one tile: kWarpRows query rows against all their key blocks, last block first.
//
//   S(n) = Q K(n)^T;  P(n), m, l = softmax step of S(n);  O = O * rescale + P(n) V(n)
#ifndef TESSERA_KERNELS_CUDA_SM80_MAINLOOP_H_
#define TESSERA_KERNELS_CUDA_SM80_MAINLOOP_H_

#include <cstdint>

#include "kernels/cuda/key_range.h"
#include "kernels/cuda/online_softmax.h"
#include "kernels/cuda/sm80/forward_traits.h"
#include "kernels/cuda/sm80/row_tile.h"
#include "kernels/cuda/tile/fragment.h"

namespace tessera::cuda::sm80 {

// What a thread holds of its warp's rows: two rows of each group.
template <typename Traits>
struct RowState {
  OnlineSoftmax softmax[Traits::kRowGroups];
  float o[Traits::kRowGroups][Traits::kOutputs];  // not yet divided by the sums
};

template <typename Traits>
class Mainloop {
 public:
  using Element = typename Traits::Element;
  using Ring = typename Traits::Ring;
  using QTile = typename Traits::QTile;
  using KvTile = typename Traits::KvTile;
  using Rows = RowState<Traits>;

  // q_tile: the block's Q tile, complete for all threads.
  __device__ __forceinline__ Mainloop(const ForwardLaunch& launch, const RowTile& tile, uint32_t q_tile)
      : launch_(launch),
        tile_(tile),
        warp_row_(threadIdx.x / 32 * Traits::kWarpRows),
        lane_(threadIdx.x % 32),
        q_address_(RowsAddress<QTile>(q_tile + QTile::Offset(warp_row_, 0), lane_)) {
    if constexpr (Traits::kQueriesInRegisters) {
#pragma unroll
      for (int step = 0; step < Traits::kSteps; ++step) LoadRows<QTile>(queries_[step], q_address_, step);
    }
  }

  // By all warps of the block, on a ring that has been started.
  __device__ __forceinline__ void Run(const KeyBlocks& blocks, Ring& ring, Rows& rows) {
    int32_t block = blocks.end - 1;
    // Three runs of blocks, so that the middle one, nearly all of them, carries no masking.
    for (; block >= blocks.begin && block >= blocks.whole_end; --block) Step<true>(block, ring, rows);
    for (; block >= blocks.begin && block >= blocks.whole_begin; --block) Step<false>(block, ring, rows);
    for (; block >= blocks.begin; --block) Step<true>(block, ring, rows);
  }

 private:
  static constexpr int kRowGroups = Traits::kRowGroups;
  static constexpr int kScores = Traits::kScores;

  template <bool kMasked>
  __device__ __forceinline__ void Step(int32_t block, Ring& ring, Rows& rows) {
    float s[kRowGroups][kScores];
    uint32_t p[kRowGroups][kScores / 2];
    Scores(s, ColumnsAddress<KvTile>(ring.WaitKeys(), lane_));
    // All groups at once: with no branch between them the compiler interleaves their softmax steps.
    launch_.score_map.Apply(reinterpret_cast<float(&)[kRowGroups * kScores]>(s));
#pragma unroll
    for (int group = 0; group < kRowGroups; ++group) {
      Softmax<kMasked>(s[group], block * Traits::kTileKeys, group, rows);
      tile::PackOperand<Element>(p[group], s[group]);
    }
    AddOutputs<KvTile>(rows.o, p, RowsAddress<KvTile>(ring.WaitValues(), lane_));
  }

  __device__ __forceinline__ void Scores(float (&s)[kRowGroups][kScores], uint32_t k) {
#pragma unroll
    for (int group = 0; group < kRowGroups; ++group) {
#pragma unroll
      for (int i = 0; i < kScores; ++i) s[group][i] = 0.0f;
    }
#pragma unroll
    for (int step = 0; step < Traits::kSteps; ++step) {
      if constexpr (Traits::kQueriesInRegisters) {
        AddScores<KvTile>(s, queries_[step], k, step);
      } else {
        uint32_t a[kRowGroups][4];
        LoadRows<QTile>(a, q_address_, step);
        AddScores<KvTile>(s, a, k, step);
      }
    }
  }

  // Scores -> exponentials in place; brings O to the new maxima.
  template <bool kMasked>
  __device__ __forceinline__ void Softmax(float (&s)[kScores], int32_t first_key, int group, Rows& rows) {
    if constexpr (kMasked) {
      const int row = warp_row_ + group * kMmaRows + lane_ / 4;
      const KeyRange visible[2] = {tile_.VisibleTo(launch_, row), tile_.VisibleTo(launch_, row + 8)};
      MaskScores(s, visible, first_key, lane_ % 4);
    }
    float rescale[2];
    rows.softmax[group].template Update<kMasked>(s, launch_.score_map.factor_log2, rescale);
#pragma unroll
    for (int j = 0; j < Traits::kOutputs / 4; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) rows.o[group][4 * j + e] *= rescale[e / 2];
    }
  }

  const ForwardLaunch& launch_;
  const RowTile& tile_;
  const int warp_row_;  // the warp's first row in the tile
  const int lane_;
  const uint32_t q_address_;
  uint32_t queries_[Traits::kQueriesInRegisters ? Traits::kSteps : 1][kRowGroups][4];
};

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_MAINLOOP_H_
