// Approximate special functions as single instructions.
#ifndef TESSERA_KERNELS_CUDA_PTX_MATH_H_
#define TESSERA_KERNELS_CUDA_PTX_MATH_H_

namespace tessera::ptx {

// 2^x, relative error about 2^-22; subnormal results are flushed to 0. Exp2(-inf) = 0.
__device__ __forceinline__ float Exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// 1 / x, within 1 ulp.
__device__ __forceinline__ float Reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace tessera::ptx

#endif  // TESSERA_KERNELS_CUDA_PTX_MATH_H_
