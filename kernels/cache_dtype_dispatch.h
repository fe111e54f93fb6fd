// From a run-time CacheDType to the element type that a kernel is written for.
#ifndef TESSERA_KERNELS_CACHE_DTYPE_DISPATCH_H_
#define TESSERA_KERNELS_CACHE_DTYPE_DISPATCH_H_

#include <utility>

#include "kernels/float8.h"
#include "kernels/half.h"
#include "kernels/paged_attention.h"

namespace tessera {

// Calls fn(T{}) with T = float, Half, BFloat16 or Float8 and returns what it returns.
template <typename Fn>
auto DispatchCacheDType(CacheDType dtype, Fn&& fn) {
  switch (dtype) {
    case CacheDType::kFloat16:
      return std::forward<Fn>(fn)(Half{});
    case CacheDType::kBFloat16:
      return std::forward<Fn>(fn)(BFloat16{});
    case CacheDType::kFloat8:
      return std::forward<Fn>(fn)(Float8{});
    case CacheDType::kFloat32:
      break;
  }
  return std::forward<Fn>(fn)(float{});
}

}  // namespace tessera

#endif  // TESSERA_KERNELS_CACHE_DTYPE_DISPATCH_H_
