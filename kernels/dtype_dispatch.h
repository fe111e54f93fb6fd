// From a run-time DType to the element type that a kernel is written for.
#ifndef TESSERA_KERNELS_DTYPE_DISPATCH_H_
#define TESSERA_KERNELS_DTYPE_DISPATCH_H_

#include <utility>

#include "kernels/attention.h"
#include "kernels/half.h"

namespace tessera {

// Calls fn(T{}) with T = float, Half or BFloat16 and returns what it returns.
template <typename Fn>
auto DispatchDType(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::kFloat16:
      return std::forward<Fn>(fn)(Half{});
    case DType::kBFloat16:
      return std::forward<Fn>(fn)(BFloat16{});
    case DType::kFloat32:
      break;
  }
  return std::forward<Fn>(fn)(float{});
}

}  // namespace tessera

#endif  // TESSERA_KERNELS_DTYPE_DISPATCH_H_
