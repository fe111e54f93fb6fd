// The sm_90a forward kernels. `Wide` and `Narrow` differ in keys a tile: masks that are not full waste less of a narrow
// one.
#ifndef TESSERA_KERNELS_CUDA_SM90_FORWARD_H_
#define TESSERA_KERNELS_CUDA_SM90_FORWARD_H_

#include "kernels/cuda/forward_kernel_entry.h"

namespace tessera::cuda::sm90 {

extern const ForwardKernelEntry kForwardBf16D64;
extern const ForwardKernelEntry kForwardBf16D96;
extern const ForwardKernelEntry kForwardBf16D128Wide;
extern const ForwardKernelEntry kForwardBf16D128Narrow;
extern const ForwardKernelEntry kForwardBf16D192;
extern const ForwardKernelEntry kForwardBf16D256;

extern const ForwardKernelEntry kForwardFp16D64;
extern const ForwardKernelEntry kForwardFp16D96;
extern const ForwardKernelEntry kForwardFp16D128Wide;
extern const ForwardKernelEntry kForwardFp16D128Narrow;
extern const ForwardKernelEntry kForwardFp16D192;
extern const ForwardKernelEntry kForwardFp16D256;

}  // namespace tessera::cuda::sm90

#endif  // TESSERA_KERNELS_CUDA_SM90_FORWARD_H_
