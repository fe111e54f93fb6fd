// A thread block's product of two tiles in shared memory, [kRows, kDepth] by kColumns columns, on the tensor cores for
// 16-bit elements and on the FP32 units for float. Sums are fp32.
//
// AddTransposed: += A B^T, B a tile of kColumns rows.  Add: += A B, B a tile of kDepth rows.
#ifndef TESSERA_KERNELS_CUDA_STANDARD_ACCUMULATOR_H_
#define TESSERA_KERNELS_CUDA_STANDARD_ACCUMULATOR_H_

#include <cstdint>

#include "kernels/cuda/sm80/padded_tile.h"
#include "kernels/cuda/sm80/warp_product.h"

namespace tessera::cuda::standard {

inline constexpr int kRows = 128;
inline constexpr int kColumns = 64;
inline constexpr int kThreads = 128;

// Tensor cores: a warp has 32 rows.
template <typename Element>
class Accumulator {
 public:
  static constexpr int kDepth = 64;
  using ATile = sm80::PaddedTile<Element, kRows, kDepth>;
  using BTransposedTile = sm80::PaddedTile<Element, kColumns, kDepth>;
  using BTile = sm80::PaddedTile<Element, kDepth, kColumns>;

  __device__ __forceinline__ void AddTransposed(uint32_t a_tile, uint32_t b_tile) {
    const uint32_t b = sm80::ColumnsAddress<BTransposedTile>(b_tile, lane_);
#pragma unroll
    for (int step = 0; step < kDepth / sm80::kMmaDepth; ++step) {
      uint32_t a[kRowGroups][4];
      sm80::LoadRows<ATile>(a, Rows(a_tile), step);
      sm80::AddScores<BTransposedTile>(c_, a, b, step);
    }
  }

  __device__ __forceinline__ void Add(uint32_t a_tile, uint32_t b_tile) {
    const uint32_t b = sm80::RowsAddress<BTile>(b_tile, lane_);
#pragma unroll
    for (int step = 0; step < kDepth / sm80::kMmaDepth; ++step) {
      uint32_t a[kRowGroups][4];
      sm80::LoadRows<ATile>(a, Rows(a_tile), step);
      sm80::AddOutputs<BTile>(c_, a, b + BTile::Offset(step * sm80::kMmaDepth, 0));
    }
  }

  // Calls function(row, column, pair) for each two neighbouring sums, column even.
  template <typename Function>
  __device__ __forceinline__ void ForEachPair(Function function) const {
#pragma unroll
    for (int group = 0; group < kRowGroups; ++group) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns / 8; ++j) {
          function(warp_row_ + group * sm80::kMmaRows + i * 8 + lane_ / 4, 8 * j + lane_ % 4 * 2,
                   float2{c_[group][4 * j + 2 * i], c_[group][4 * j + 2 * i + 1]});
        }
      }
    }
  }

 private:
  static constexpr int kRowGroups = 2;

  __device__ __forceinline__ uint32_t Rows(uint32_t a_tile) const {
    return sm80::RowsAddress<ATile>(a_tile + ATile::Offset(warp_row_, 0), lane_);
  }

  const int lane_ = threadIdx.x % 32;
  const int warp_row_ = threadIdx.x / 32 * 32;
  float c_[kRowGroups][kColumns / 2] = {};
};

// FP32 units: a thread has rows y + 16 * i and columns 16 * j + 2 * x, + 1.
template <>
class Accumulator<float> {
 public:
  static constexpr int kDepth = 32;
  using ATile = sm80::PaddedTile<float, kRows, kDepth>;
  using BTransposedTile = sm80::PaddedTile<float, kColumns, kDepth>;
  using BTile = sm80::PaddedTile<float, kDepth, kColumns>;

  __device__ __forceinline__ void AddTransposed(uint32_t a_tile, uint32_t b_tile) {
    const unsigned char* a = Pointer(a_tile + ATile::Offset(y_, 0));
    const unsigned char* b = Pointer(b_tile + BTransposedTile::Offset(2 * x_, 0));
#pragma unroll 2
    for (int depth = 0; depth < kDepth; depth += 4) {
      float4 row[kThreadRows];
#pragma unroll
      for (int i = 0; i < kThreadRows; ++i) row[i] = Load<float4>(a + ATile::Offset(16 * i, depth));
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        const float4 low = Load<float4>(b + BTransposedTile::Offset(16 * j, depth));
        const float4 high = Load<float4>(b + BTransposedTile::Offset(16 * j + 1, depth));
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) {
          c_[i][j].x = Dot(row[i], low, c_[i][j].x);
          c_[i][j].y = Dot(row[i], high, c_[i][j].y);
        }
      }
    }
  }

  __device__ __forceinline__ void Add(uint32_t a_tile, uint32_t b_tile) {
    const unsigned char* a = Pointer(a_tile + ATile::Offset(y_, 0));
    const unsigned char* b = Pointer(b_tile + BTile::Offset(0, 2 * x_));
#pragma unroll 4
    for (int depth = 0; depth < kDepth; ++depth) {
      float row[kThreadRows];
#pragma unroll
      for (int i = 0; i < kThreadRows; ++i) row[i] = Load<float>(a + ATile::Offset(16 * i, depth));
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        const float2 column = Load<float2>(b + BTile::Offset(depth, 16 * j));
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) {
          c_[i][j].x = fmaf(row[i], column.x, c_[i][j].x);
          c_[i][j].y = fmaf(row[i], column.y, c_[i][j].y);
        }
      }
    }
  }

  template <typename Function>
  __device__ __forceinline__ void ForEachPair(Function function) const {
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
      for (int j = 0; j < kPairs; ++j) function(y_ + 16 * i, 16 * j + 2 * x_, c_[i][j]);
    }
  }

 private:
  static constexpr int kThreadRows = kRows / 16;
  static constexpr int kPairs = kColumns / 16;

  static __device__ __forceinline__ const unsigned char* Pointer(uint32_t shared_address) {
    return static_cast<const unsigned char*>(__cvta_shared_to_generic(shared_address));
  }

  template <typename Vector>
  static __device__ __forceinline__ Vector Load(const unsigned char* address) {
    return *reinterpret_cast<const Vector*>(address);
  }

  static __device__ __forceinline__ float Dot(const float4& a, const float4& b, float c) {
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, c))));
  }

  const int x_ = threadIdx.x % 8;
  const int y_ = threadIdx.x / 8;
  float2 c_[kThreadRows][kPairs] = {};
};

}  // namespace tessera::cuda::standard

#endif  // TESSERA_KERNELS_CUDA_STANDARD_ACCUMULATOR_H_
