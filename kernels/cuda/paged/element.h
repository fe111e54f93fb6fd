// Single elements, as they are in tensors and pages, from and to float.
#ifndef TESSERA_KERNELS_CUDA_PAGED_ELEMENT_H_
#define TESSERA_KERNELS_CUDA_PAGED_ELEMENT_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "kernels/float8.h"

namespace tessera::cuda::paged {

template <typename T>
__device__ __forceinline__ float AsFloat(T value) {
  return static_cast<float>(value);
}

template <>
__device__ __forceinline__ float AsFloat<Float8>(Float8 value) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(value.bits, __NV_E4M3)));
}

// A new element as the pages hold it: as it is or, as fp8, divided by its head's scale and rounded to the nearest even;
// what is too large becomes the largest value.
template <typename Cached, typename Element>
__device__ __forceinline__ Cached ToCached(Element value, float scale) {
  if constexpr (sizeof(Cached) == 1) {
    return {__nv_cvt_float_to_fp8(__fdiv_rn(AsFloat(value), scale), __NV_SATFINITE, __NV_E4M3)};
  } else {
    return value;
  }
}

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_ELEMENT_H_
