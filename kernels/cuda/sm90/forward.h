// The sm_90a forward kernels. `Tall` and `Short` differ in query rows a tile, `Wide` and `Narrow` in keys: the larger
// tile is faster where it is filled, and more of it is wasted at the ends of a sequence and the edges of a mask.
#ifndef TESSERA_KERNELS_CUDA_SM90_FORWARD_H_
#define TESSERA_KERNELS_CUDA_SM90_FORWARD_H_

#include "kernels/cuda/forward_kernel_entry.h"

namespace tessera::cuda::sm90 {

extern const ForwardKernelEntry kForwardBf16D64Tall;
extern const ForwardKernelEntry kForwardBf16D64Short;
extern const ForwardKernelEntry kForwardBf16D96;
extern const ForwardKernelEntry kForwardBf16D128Wide;
extern const ForwardKernelEntry kForwardBf16D128Narrow;
extern const ForwardKernelEntry kForwardBf16D192;
extern const ForwardKernelEntry kForwardBf16D256;

extern const ForwardKernelEntry kForwardFp16D64Tall;
extern const ForwardKernelEntry kForwardFp16D64Short;
extern const ForwardKernelEntry kForwardFp16D96;
extern const ForwardKernelEntry kForwardFp16D128Wide;
extern const ForwardKernelEntry kForwardFp16D128Narrow;
extern const ForwardKernelEntry kForwardFp16D192;
extern const ForwardKernelEntry kForwardFp16D256;

}  // namespace tessera::cuda::sm90

#endif  // TESSERA_KERNELS_CUDA_SM90_FORWARD_H_
