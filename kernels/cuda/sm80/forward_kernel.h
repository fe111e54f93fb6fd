// The portable forward kernel for 16-bit elements: mma.sync and cp.async, for every GPU since sm_80.
//
// One block a tile. Each warp owns 16 query rows and keeps their Q fragments, scores and output in registers; K and V
// blocks come double-buffered: while block n is computed, block n - 1 is on its way.
#ifndef TESSERA_KERNELS_CUDA_SM80_FORWARD_KERNEL_H_
#define TESSERA_KERNELS_CUDA_SM80_FORWARD_KERNEL_H_

#include <cstdint>

#include "kernels/cuda/forward_table.h"
#include "kernels/cuda/key_range.h"
#include "kernels/cuda/online_softmax.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/mma.h"
#include "kernels/cuda/row_repair.h"
#include "kernels/cuda/sm80/load.h"
#include "kernels/cuda/sm80/traits.h"
#include "kernels/cuda/tile/fragment.h"
#include "kernels/cuda/tile_walk.h"

namespace tessera::cuda::sm80 {

// s = q k^T for the warp's 16 rows. Lane l of ldmatrix gives row l % 8 of matrix l / 8.
template <typename Traits>
__device__ __forceinline__ void Scores(float (&s)[Traits::kTileKeys / 2], uint32_t q_address, uint32_t k_address) {
  const int lane = threadIdx.x % 32;
  const uint32_t q_row = q_address + lane % 16 * Traits::kRowBytes + lane / 16 * 16;
  const uint32_t k_row = k_address + (lane / 16 * 8 + lane % 8) * Traits::kRowBytes + lane / 8 % 2 * 16;
#pragma unroll
  for (int i = 0; i < Traits::kTileKeys / 2; ++i) s[i] = 0.0f;
#pragma unroll
  for (int step = 0; step < Traits::kHeadDim / 16; ++step) {
    uint32_t a[4];
    ptx::LoadMatrix(a, q_row + step * 32);
#pragma unroll
    for (int keys = 0; keys < Traits::kTileKeys / 16; ++keys) {
      uint32_t b[4];
      ptx::LoadMatrix(b, k_row + keys * 16 * Traits::kRowBytes + step * 32);
      ptx::Mma16x8x16<typename Traits::Element>(reinterpret_cast<float(&)[4]>(s[8 * keys]), a, b[0], b[1]);
      ptx::Mma16x8x16<typename Traits::Element>(reinterpret_cast<float(&)[4]>(s[8 * keys + 4]), a, b[2], b[3]);
    }
  }
}

// o += p v.
template <typename Traits>
__device__ __forceinline__ void Outputs(float (&o)[Traits::kHeadDim / 2], const uint32_t (&p)[Traits::kTileKeys / 4],
                                        uint32_t v_address) {
  const int lane = threadIdx.x % 32;
  const uint32_t v_row = v_address + lane % 16 * Traits::kRowBytes + lane / 16 * 16;
#pragma unroll
  for (int step = 0; step < Traits::kTileKeys / 16; ++step) {
    const uint32_t(&a)[4] = reinterpret_cast<const uint32_t(&)[4]>(p[4 * step]);
#pragma unroll
    for (int columns = 0; columns < Traits::kHeadDim / 16; ++columns) {
      uint32_t b[4];
      ptx::LoadMatrixTransposed(b, v_row + step * 16 * Traits::kRowBytes + columns * 32);
      ptx::Mma16x8x16<typename Traits::Element>(reinterpret_cast<float(&)[4]>(o[8 * columns]), a, b[0], b[1]);
      ptx::Mma16x8x16<typename Traits::Element>(reinterpret_cast<float(&)[4]>(o[8 * columns + 4]), a, b[2], b[3]);
    }
  }
}

template <typename Traits>
__global__ void __launch_bounds__(Traits::kThreads) ForwardKernel(const __grid_constant__ ForwardLaunch launch) {
  using Element = typename Traits::Element;
  constexpr int kHeadDim = Traits::kHeadDim;
  constexpr int kOutputs = kHeadDim / 2;
  extern __shared__ __align__(16) unsigned char shared[];
  unsigned char* const k_shared = shared + Traits::kQBytes;
  unsigned char* const v_shared = k_shared + 2 * Traits::kBlockBytes;

  const TilePlace place = PlaceTile(launch, blockIdx.x, Traits::kTileKeys);
  const SequenceEntry& entry = *place.entry;
  const SequenceShape& shape = entry.shape;
  const int32_t kv_head = place.head / shape.kv_ratio;
  auto load_keys = [&](int32_t block, int buffer) {
    LoadKeyRows<Element, Traits::kTileKeys, kHeadDim, Traits::kRowBytes, Traits::kThreads>(
        k_shared + buffer * Traits::kBlockBytes, entry.k, entry.k_strides, shape.kv_len, block * Traits::kTileKeys,
        kv_head, launch.head_dim);
  };
  auto load_values = [&](int32_t block, int buffer) {
    LoadKeyRows<Element, Traits::kTileKeys, kHeadDim, Traits::kRowBytes, Traits::kThreads>(
        v_shared + buffer * Traits::kBlockBytes, entry.v, entry.v_strides, shape.kv_len, block * Traits::kTileKeys,
        kv_head, launch.head_dim);
  };

  const bool q_aligned = Aligned<Element>(entry.q, entry.q_strides);
  for (int piece = threadIdx.x; piece < Traits::kTileRows * Traits::kChunks; piece += Traits::kThreads) {
    const int row = piece / Traits::kChunks;
    int32_t token, q_head;
    const bool exists = RowOfTile(place, row, token, q_head);
    const Element* source =
        static_cast<const Element*>(entry.q) + token * entry.q_strides.token + q_head * entry.q_strides.head;
    LoadPiece(shared + row * Traits::kRowBytes + piece % Traits::kChunks * 16, exists ? source : nullptr,
              piece % Traits::kChunks * 8, launch.head_dim, q_aligned, entry.q);
  }

  const int lane = threadIdx.x % 32;
  const int first_row = threadIdx.x / 32 * 16 + lane / 4;
  int32_t tokens[2], q_heads[2];
  bool exists[2];
  KeyRange rows[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    exists[i] = RowOfTile(place, first_row + 8 * i, tokens[i], q_heads[i]);
    rows[i] = VisibleKeys(tokens[i], shape.q_len, shape.kv_len, launch.left, launch.right);
  }

  float o[kOutputs];
#pragma unroll
  for (int i = 0; i < kOutputs; ++i) o[i] = 0.0f;
  OnlineSoftmax softmax;
  softmax.Reset();
  const uint32_t q_address = ptx::SharedAddress(shared) + threadIdx.x / 32 * 16 * Traits::kRowBytes;
  int buffer = 0;
  if (!place.blocks.empty()) {
    load_keys(place.blocks.end - 1, buffer);
    load_values(place.blocks.end - 1, buffer);
    ptx::AsyncCopyCommit();
  }
  for (int32_t block = place.blocks.end - 1; block >= place.blocks.begin; --block, buffer ^= 1) {
    if (block > place.blocks.begin) {
      load_keys(block - 1, buffer ^ 1);
      load_values(block - 1, buffer ^ 1);
    }
    ptx::AsyncCopyCommit();
    ptx::AsyncCopyWait<1>();
    __syncthreads();

    float s[Traits::kTileKeys / 2];
    uint32_t p[Traits::kTileKeys / 4];
    float rescale[2];
    Scores<Traits>(s, q_address, ptx::SharedAddress(k_shared + buffer * Traits::kBlockBytes));
    launch.score_map.Apply(s);
    if (place.blocks.needs_mask(block)) MaskScores(s, rows, block * Traits::kTileKeys, lane % 4);
    softmax.Update<true>(s, launch.score_map.factor_log2, rescale);
    tile::PackOperand<Element>(p, s);
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) o[i] *= rescale[i / 2 % 2];
    Outputs<Traits>(o, p, ptx::SharedAddress(v_shared + buffer * Traits::kBlockBytes));
    __syncthreads();
  }
  ptx::AsyncCopyWait<0>();

  float inverse[2], lse[2];
  softmax.Finish(launch.score_map.factor_log2, inverse, lse);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    Element* row = static_cast<Element*>(shape.o) + tokens[i] * shape.o_strides.token + q_heads[i] * shape.o_strides.head;
    bool finite = true;
#pragma unroll
    for (int j = 0; j < kOutputs / 4; ++j) {
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        const float value = o[4 * j + 2 * i + b] * inverse[i];
        const int column = 8 * j + 2 * (lane % 4) + b;
        finite = finite && isfinite(value);
        if (exists[i] && column < launch.head_dim) row[column] = static_cast<Element>(value);
      }
    }
    if (lane % 4 == 0 && exists[i] && shape.lse != nullptr) {
      shape.lse[tokens[i] * shape.lse_strides.token + q_heads[i] * shape.lse_strides.head] = lse[i];
    }
    if (!place.blocks.any_masked()) continue;
    const uint32_t broken = __ballot_sync(0xffffffffu, exists[i] && !finite);
    for (int quad = 0; quad < 8; ++quad) {
      if ((broken >> 4 * quad & 0xfu) == 0) continue;
      const int32_t token = __shfl_sync(0xffffffffu, tokens[i], 4 * quad);
      const int32_t q_head = __shfl_sync(0xffffffffu, q_heads[i], 4 * quad);
      RepairRow<Element>(entry, token, q_head, kv_head, launch.head_dim, launch.score_map,
                         VisibleKeys(token, shape.q_len, shape.kv_len, launch.left, launch.right));
    }
  }
}

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_FORWARD_KERNEL_H_
