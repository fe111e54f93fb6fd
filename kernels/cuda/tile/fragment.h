// Register fragments of the 16-bit matrix products.
//
// An accumulator fragment of a warp's 16 rows: lane = 4 * g + t holds, for each 8-column group j, c[4 * j + 2 * i + b]
// at row g + 8 * i, column 8 * j + 2 * t + b. mma.m16n8 and wgmma share this layout; the four lanes of a g are its
// quad.
#ifndef TESSERA_KERNELS_CUDA_TILE_FRAGMENT_H_
#define TESSERA_KERNELS_CUDA_TILE_FRAGMENT_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace tessera::tile {

// Two floats rounded to nearest even, `low` in the lower half.
template <typename Element>
__device__ __forceinline__ uint32_t Pack(float low, float high);

template <>
__device__ __forceinline__ uint32_t Pack<__half>(float low, float high) {
  const __half2 packed = __floats2half2_rn(low, high);
  return reinterpret_cast<const uint32_t&>(packed);
}

template <>
__device__ __forceinline__ uint32_t Pack<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 packed = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(packed);
}

// `mark` where both elements of `packed` are finite and mark is 0; otherwise not 0.
template <typename Element>
__device__ __forceinline__ uint32_t MarkNotFinite(uint32_t mark, uint32_t packed);

template <>
__device__ __forceinline__ uint32_t MarkNotFinite<__half>(uint32_t mark, uint32_t packed) {
  asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(mark) : "r"(packed), "r"(0));  // 0 * inf and 0 * NaN are NaN
  return mark;
}

template <>
__device__ __forceinline__ uint32_t MarkNotFinite<__nv_bfloat16>(uint32_t mark, uint32_t packed) {
  asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(mark) : "r"(packed), "r"(0));
  return mark;
}

// An accumulator fragment of kColumns columns, rounded, as the A operand of kColumns / 16 products: p[4 * step + ...].
template <typename Element, int kFloats>
__device__ __forceinline__ void PackOperand(uint32_t (&p)[kFloats / 2], const float (&c)[kFloats]) {
#pragma unroll
  for (int i = 0; i < kFloats / 2; ++i) p[i] = Pack<Element>(c[2 * i], c[2 * i + 1]);
}

__device__ __forceinline__ float QuadMax(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

__device__ __forceinline__ float QuadSum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

// Transposes the quad's 4 x 4 words: on return lane t holds word t of each lane, in lane order.
__device__ __forceinline__ void QuadTranspose(uint32_t (&w)[4], int t) {
#pragma unroll
  for (int step = 2; step >= 1; step /= 2) {
    const bool upper = (t & step) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & step) != 0) continue;
      const uint32_t received = __shfl_xor_sync(0xffffffffu, upper ? w[i] : w[i + step], step);
      w[i + step] = upper ? w[i + step] : received;
      w[i] = upper ? received : w[i];
    }
  }
}

}  // namespace tessera::tile

#endif  // TESSERA_KERNELS_CUDA_TILE_FRAGMENT_H_
