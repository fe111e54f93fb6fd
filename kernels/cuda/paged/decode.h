// The kernels for pages: element type of the call, fp8 or the same in the pages, head size. Narrow: 16 stacked rows a
// block; wide: 32.
#ifndef TESSERA_KERNELS_CUDA_PAGED_DECODE_H_
#define TESSERA_KERNELS_CUDA_PAGED_DECODE_H_

#include "kernels/cuda/paged/paged_kernel_entry.h"

namespace tessera::cuda::paged {

extern const PagedKernelEntry kDecodeBf16D64Narrow;
extern const PagedKernelEntry kDecodeBf16D64Wide;
extern const PagedKernelEntry kDecodeBf16D128Narrow;
extern const PagedKernelEntry kDecodeBf16D128Wide;
extern const PagedKernelEntry kDecodeBf16D256Narrow;

extern const PagedKernelEntry kDecodeBf16Fp8D64Narrow;
extern const PagedKernelEntry kDecodeBf16Fp8D64Wide;
extern const PagedKernelEntry kDecodeBf16Fp8D128Narrow;
extern const PagedKernelEntry kDecodeBf16Fp8D128Wide;
extern const PagedKernelEntry kDecodeBf16Fp8D256Narrow;

extern const PagedKernelEntry kDecodeFp16D64Narrow;
extern const PagedKernelEntry kDecodeFp16D64Wide;
extern const PagedKernelEntry kDecodeFp16D128Narrow;
extern const PagedKernelEntry kDecodeFp16D128Wide;
extern const PagedKernelEntry kDecodeFp16D256Narrow;

extern const PagedKernelEntry kDecodeFp16Fp8D64Narrow;
extern const PagedKernelEntry kDecodeFp16Fp8D64Wide;
extern const PagedKernelEntry kDecodeFp16Fp8D128Narrow;
extern const PagedKernelEntry kDecodeFp16Fp8D128Wide;
extern const PagedKernelEntry kDecodeFp16Fp8D256Narrow;

// For any strides and alignment.
extern const PagedKernels kRowsBf16;
extern const PagedKernels kRowsBf16Fp8;
extern const PagedKernels kRowsFp16;
extern const PagedKernels kRowsFp16Fp8;
extern const PagedKernels kRowsFp32;
extern const PagedKernels kRowsFp32Fp8;

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_DECODE_H_
