// The portable forward kernels, sm_80 and later.
#ifndef TESSERA_KERNELS_CUDA_SM80_FORWARD_H_
#define TESSERA_KERNELS_CUDA_SM80_FORWARD_H_

#include "kernels/cuda/forward_kernel_entry.h"

namespace tessera::cuda::sm80 {

extern const ForwardKernelEntry kForwardBf16D64;
extern const ForwardKernelEntry kForwardBf16D96;
extern const ForwardKernelEntry kForwardBf16D128;
extern const ForwardKernelEntry kForwardBf16D192;
extern const ForwardKernelEntry kForwardBf16D256;

extern const ForwardKernelEntry kForwardFp16D64;
extern const ForwardKernelEntry kForwardFp16D96;
extern const ForwardKernelEntry kForwardFp16D128;
extern const ForwardKernelEntry kForwardFp16D192;
extern const ForwardKernelEntry kForwardFp16D256;

extern const ForwardKernelEntry kForwardFp32D64;
extern const ForwardKernelEntry kForwardFp32D96;
extern const ForwardKernelEntry kForwardFp32D128;
extern const ForwardKernelEntry kForwardFp32D192;
extern const ForwardKernelEntry kForwardFp32D256;

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_FORWARD_H_
