// A warp's part of an item: all rows against every kWarps-th tile of 16 keys.
//
//   S = Q K^T;  P, m, l = softmax step of S;  O = O * rescale + P V
#ifndef TESSERA_KERNELS_CUDA_PAGED_DECODE_WARP_H_
#define TESSERA_KERNELS_CUDA_PAGED_DECODE_WARP_H_

#include <cstdint>

#include "kernels/cuda/online_softmax.h"
#include "kernels/cuda/paged/decode_traits.h"
#include "kernels/cuda/paged/paged_work.h"
#include "kernels/cuda/paged/row_softmax.h"
#include "kernels/cuda/ptx/mma.h"
#include "kernels/cuda/tile/fragment.h"

namespace tessera::cuda::paged {

template <typename Traits>
class DecodeWarp {
 public:
  using Element = typename Traits::Element;
  using Stream = typename Traits::Stream;

  __device__ __forceinline__ DecodeWarp(const PagedLaunch& launch, const PagedWork& work)
      : launch_(launch), work_(work) {
#pragma unroll
    for (int group = 0; group < kRowGroups; ++group) {
      softmax_[group].Reset();
#pragma unroll
      for (int i = 0; i < Traits::kOutputs; ++i) o_[group][i] = 0.0f;
    }
  }

  // Rows of Q as A operands, in the order of CachedOperand; rows that do not exist become zeros.
  __device__ __forceinline__ void LoadQueries() {
#pragma unroll
    for (int group = 0; group < kRowGroups; ++group) {
#pragma unroll
      for (int i = 0; i < 2; ++i) LoadRow(group, i);
    }
  }

  // All of the warp's tiles, from a stream that has been started. `ring`: the stream's shared memory.
  __device__ __forceinline__ void Run(Stream& stream, const unsigned char* ring) {
    for (int32_t first_key = Stream::FirstTile(work_); first_key < work_.keys.end;
         first_key += kTileKeys * Traits::kWarps) {
      float s[kRowGroups][8];
      uint32_t p[kRowGroups][4];
      Scores(s, ring + stream.WaitKeys());
      work_.scores.Apply(reinterpret_cast<float(&)[kRowGroups * 8]>(s));
      const bool masked = first_key < work_.whole.begin || first_key + kTileKeys > work_.whole.end;
#pragma unroll
      for (int group = 0; group < kRowGroups; ++group) {
        Softmax(s[group], first_key, masked, group);
        tile::PackOperand<Element>(p[group], s[group]);
      }
      const unsigned char* values = ring + stream.WaitValues();
      if constexpr (Tile::kIsFloat8) {
        AddFloat8Outputs(p, values);
      } else {
        AddOutputs(p, values);
      }
    }
  }

  // Calls put(row, column, value) for this lane's outputs.
  template <typename Put>
  __device__ __forceinline__ void ForEachOutput(const Put& put) const {
#pragma unroll
    for (int group = 0; group < kRowGroups; ++group) {
#pragma unroll
      for (int j = 0; j < Traits::kOutputs / 4; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          put(Row(group, e / 2), Operand::OutputColumn(j, 2 * T() + e % 2), o_[group][4 * j + e]);
        }
      }
    }
  }

  // Calls put(row, sums) for this lane's rows; equal in all lanes of a quad.
  template <typename Put>
  __device__ __forceinline__ void ForEachRow(const Put& put) const {
#pragma unroll
    for (int group = 0; group < kRowGroups; ++group) {
#pragma unroll
      for (int i = 0; i < 2; ++i) put(Row(group, i), softmax_[group].sums(i));
    }
  }

  // Whether this lane met NaN in fp8, which is not in its results.
  __device__ __forceinline__ bool met_nan() const { return nan_ != 0; }

 private:
  using Cached = typename Traits::Cached;
  using Operand = typename Traits::Operand;
  using Tile = typename Traits::Tile;
  static constexpr int kRowGroups = Traits::kRowGroups;

  static __device__ __forceinline__ int G() { return threadIdx.x % 32 / 4; }
  static __device__ __forceinline__ int T() { return threadIdx.x % 4; }
  static __device__ __forceinline__ int Row(int group, int i) { return 16 * group + 8 * i + G(); }

  __device__ __forceinline__ void LoadRow(int group, int i) {
    const int row = Row(group, i);
    const RowPlace place = work_.Place(launch_, min(row, work_.rows - 1));
    const TensorStrides& strides = work_.entry.q_strides;
    const Element* q =
        static_cast<const Element*>(work_.entry.q) + place.token * strides.token + place.q_head * strides.head;
#pragma unroll
    for (int chunk = 0; chunk < Operand::kKeyChunks; ++chunk) {
#pragma unroll
      for (int half = 0; half < Tile::kChunkElements / 8; ++half) {
        const int column = (4 * chunk + T()) * Tile::kChunkElements + 8 * half;
        uint4 words = {0, 0, 0, 0};
        if (row < work_.rows && column < launch_.head_dim) words = *reinterpret_cast<const uint4*>(q + column);
        const int step = chunk * Operand::kChunkSteps + 2 * half;
        queries_[group][step][i] = words.x;
        queries_[group][step][i + 2] = words.y;
        queries_[group][step + 1][i] = words.z;
        queries_[group][step + 1][i + 2] = words.w;
      }
    }
  }

  __device__ __forceinline__ void Scores(float (&s)[kRowGroups][8], const unsigned char* keys) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int group = 0; group < kRowGroups; ++group) {
#pragma unroll
        for (int e = 0; e < 4; ++e) s[group][4 * half + e] = 0.0f;
      }
#pragma unroll
      for (int i = 0; i < Operand::kKeyChunks; ++i) {
        uint32_t chunk[4];
        Operand::LoadKeys(chunk, keys, half, i);
        if constexpr (Tile::kIsFloat8)
          nan_ |= AnyNaN(chunk[0]) | AnyNaN(chunk[1]) | AnyNaN(chunk[2]) | AnyNaN(chunk[3]);
#pragma unroll
        for (int u = 0; u < Operand::kChunkSteps; ++u) {
          uint32_t b[2];
          KeyOperand<Element, Operand::kWords>(b, chunk, u);
#pragma unroll
          for (int group = 0; group < kRowGroups; ++group) {
            float(&c)[4] = reinterpret_cast<float(&)[4]>(s[group][4 * half]);
            ptx::Mma16x8x16<Element>(c, queries_[group][i * Operand::kChunkSteps + u], b[0], b[1]);
          }
        }
      }
    }
  }

  // Scores -> exponentials in place; brings O to the new maxima.
  __device__ __forceinline__ void Softmax(float (&s)[8], int32_t first_key, bool masked, int group) {
    if (masked) {
      const KeyRange visible[2] = {work_.VisibleTo(launch_, Row(group, 0)), work_.VisibleTo(launch_, Row(group, 1))};
      MaskScores(s, visible, first_key, T());
    }
    float shrink[2];
    if (softmax_[group].Update(s, work_.scores.factor_log2, shrink)) {
#pragma unroll
      for (int i = 0; i < Traits::kOutputs; ++i) o_[group][i] *= shrink[i % 4 / 2];
    }
  }

  __device__ __forceinline__ void Add(int j, const uint32_t (&p)[kRowGroups][4], uint32_t b0, uint32_t b1) {
#pragma unroll
    for (int group = 0; group < kRowGroups; ++group) {
      ptx::Mma16x8x16<Element>(reinterpret_cast<float(&)[4]>(o_[group][4 * j]), p[group], b0, b1);
    }
  }

  __device__ __forceinline__ void AddOutputs(const uint32_t (&p)[kRowGroups][4], const unsigned char* values) {
    const int lane = threadIdx.x % 32;
    const uint32_t tile = ptx::SharedAddress(values);
#pragma unroll
    for (int pair = 0; pair < Traits::kHeadDim / 16; ++pair) {
      uint32_t b[4];
      ptx::LoadMatrixTransposed(b, tile + Tile::ValueOffset(lane % 16, 2 * pair + lane / 16));
      Add(2 * pair, p, b[0], b[1]);
      Add(2 * pair + 1, p, b[2], b[3]);
    }
  }

  __device__ __forceinline__ void AddFloat8Outputs(const uint32_t (&p)[kRowGroups][4], const unsigned char* values) {
#pragma unroll
    for (int run = 0; run < Traits::kHeadDim / (8 * Operand::kRunColumns); ++run) {
      uint32_t words[4][2];  // of keys 2t, 2t + 1, 2t + 8, 2t + 9
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int byte = run * (8 * Operand::kRunColumns) + G() * Operand::kRunColumns;
        const unsigned char* from =
            values + Tile::ValueOffset(2 * T() + i % 2 + i / 2 * 8, byte / kChunkBytes) + byte % kChunkBytes;
        const uint2 read = *reinterpret_cast<const uint2*>(from);
        words[i][0] = read.x, words[i][1] = read.y;
        nan_ |= AnyNaN(read.x) | AnyNaN(read.y);
      }
#pragma unroll
      for (int j = 0; j < Operand::kRunColumns; ++j) {
        const uint32_t pick = (4 + j % 4) << 12 | (j % 4) << 4;  // byte j % 4 of both words, into bytes 1 and 3
        Add(run * Operand::kRunColumns + j, p, Widen<Element>(__byte_perm(words[0][j / 4], words[1][j / 4], pick)),
            Widen<Element>(__byte_perm(words[2][j / 4], words[3][j / 4], pick)));
      }
    }
  }

  const PagedLaunch& launch_;
  const PagedWork& work_;
  uint32_t queries_[kRowGroups][Traits::kSteps][4];
  RowSoftmax softmax_[kRowGroups];
  float o_[kRowGroups][Traits::kOutputs];
  uint32_t nan_ = 0;
};

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_DECODE_WARP_H_
