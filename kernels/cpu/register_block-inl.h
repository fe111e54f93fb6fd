// The two products of attention on register blocks.
//
// Rows of Q lie in the lanes: a panel is kVectors vectors of rows, and everything that belongs to a panel is stored
// transposed, [.., panel] with panel = kVectors * Lanes floats. So the softmax over keys needs no sum or maximum across
// lanes, a row's statistics are lanes of vectors, and both products have the same shape:
//
//   scores  [key, row] = sum over c of K[key, c] * Q[c, row]        kSteps keys a block
//   output  [c, row]  += sum over keys of V[key, c] * P[key, row]   kSteps elements of head_dim a block
//
// The left factor is broadcast, the right one is a vector. kSteps x kVectors accumulators stay in registers, and each
// takes its fused multiply-adds in ascending order: a row's result does not depend on its neighbours in the panel.
#if defined(TESSERA_KERNELS_CPU_REGISTER_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_CPU_REGISTER_BLOCK_INL_H_
#undef TESSERA_KERNELS_CPU_REGISTER_BLOCK_INL_H_
#else
#define TESSERA_KERNELS_CPU_REGISTER_BLOCK_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/tile_shape.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using RowTag = hn::ScalableTag<float>;
using RowVec = hn::Vec<RowTag>;
inline constexpr int64_t kLanes = hn::MaxLanes(RowTag());

// Vectors of a full panel, and broadcast steps of a block: with 32 registers 8 x 3 accumulators and 3 vectors of the
// right factor; with 16 registers 4 x 3, 3 and the broadcast.
inline constexpr int kPanelVectors = 3;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
inline constexpr int kSteps = 8;
#else
inline constexpr int kSteps = 4;
#endif

static_assert(kTileRows % (kPanelVectors * kLanes) == 0, "a block is whole panels");
static_assert(kTileKeys % kSteps == 0 && 8 % kSteps == 0, "tiles and head_dim are whole register blocks");

// Elements of head_dim in one chain: the error of a dot product grows with its longest chain, and a BLAS, whose chains
// run over a vector's lanes, has short ones.
inline constexpr int64_t kScoreChain = 64;

// scores [kSteps, panel] of the keys at `k` [kSteps, kKeyStride] against the panel at `q` [head_dim, panel]: chains of
// kScoreChain elements, summed in order.
template <int kVectors>
HWY_INLINE void ScoreBlock(const float* HWY_RESTRICT q, const float* HWY_RESTRICT k, int64_t head_dim,
                           float* HWY_RESTRICT scores) {
  const RowTag d;
  constexpr int64_t kPanel = kVectors * kLanes;
  for (int64_t begin = 0; begin < head_dim; begin += kScoreChain) {
    const int64_t end = std::min(begin + kScoreChain, head_dim);
    RowVec sum[kSteps][kVectors];
    for (int i = 0; i < kSteps; ++i) {
      for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::Zero(d);
    }
    for (int64_t c = begin; c < end; ++c) {
      RowVec right[kVectors];
      for (int v = 0; v < kVectors; ++v) right[v] = hn::Load(d, q + c * kPanel + v * kLanes);
      for (int i = 0; i < kSteps; ++i) {
        const RowVec left = hn::Set(d, k[i * kKeyStride + c]);
        for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::MulAdd(left, right[v], sum[i][v]);
      }
    }
    for (int i = 0; i < kSteps; ++i) {
      for (int v = 0; v < kVectors; ++v) {
        float* to = scores + i * kPanel + v * kLanes;
        hn::Store(begin == 0 ? sum[i][v] : hn::Add(hn::Load(d, to), sum[i][v]), d, to);
      }
    }
  }
}

// One row's visible keys among those of `weights`, as vectors of floats: begin <= key < end.
struct VisibleKeys {
  const float* begin;  // [panel]
  const float* end;    // [panel]
};

// output [kSteps, panel] = output * rescale + V^T P, of `v` [keys, kKeyStride] from element 0 on and of `weights`
// [keys, panel]. With kGuarded, a row takes no part in the products of keys that it does not see: 0 * NaN is NaN.
template <int kVectors, bool kGuarded>
HWY_INLINE void OutputBlock(const float* HWY_RESTRICT v, const float* HWY_RESTRICT weights, int64_t first_key,
                            int64_t end_key, const float* HWY_RESTRICT rescale, VisibleKeys visible,
                            float* HWY_RESTRICT output) {
  const RowTag d;
  constexpr int64_t kPanel = kVectors * kLanes;
  RowVec sum[kSteps][kVectors];
  for (int i = 0; i < kSteps; ++i) {
    for (int u = 0; u < kVectors; ++u) sum[i][u] = hn::Zero(d);
  }
  for (int64_t key = first_key; key < end_key; ++key) {
    RowVec right[kVectors];
    for (int u = 0; u < kVectors; ++u) right[u] = hn::Load(d, weights + key * kPanel + u * kLanes);
    for (int i = 0; i < kSteps; ++i) {
      const RowVec left = hn::Set(d, v[key * kKeyStride + i]);
      for (int u = 0; u < kVectors; ++u) {
        const RowVec next = hn::MulAdd(left, right[u], sum[i][u]);
        if constexpr (kGuarded) {
          const RowVec at = hn::Set(d, static_cast<float>(key));
          const auto seen = hn::And(hn::Ge(at, hn::Load(d, visible.begin + u * kLanes)),
                                    hn::Lt(at, hn::Load(d, visible.end + u * kLanes)));
          sum[i][u] = hn::IfThenElse(seen, next, sum[i][u]);
        } else {
          sum[i][u] = next;
        }
      }
    }
  }
  for (int i = 0; i < kSteps; ++i) {
    for (int u = 0; u < kVectors; ++u) {
      float* to = output + i * kPanel + u * kLanes;
      hn::Store(hn::MulAdd(hn::Load(d, to), hn::Load(d, rescale + u * kLanes), sum[i][u]), d, to);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_KERNELS_CPU_REGISTER_BLOCK_INL_H_
