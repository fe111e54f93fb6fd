// A GPU's memory by the driver's own library, loaded when asked for: the load tester is built and run without CUDA.
#ifndef TESSERA_CLIENT_CPP_LOAD_CUDA_DRIVER_H_
#define TESSERA_CLIENT_CPP_LOAD_CUDA_DRIVER_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cpp/tessera/region_session.h"

namespace tessera::load {

// Thread-safe.
class CudaDriver {
 public:
  // Of GPU `device`. UNAVAILABLE where the machine has no driver or no such GPU.
  static absl::StatusOr<std::unique_ptr<CudaDriver>> Open(int device);
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;
  // REQUIRES: everything has been freed.
  ~CudaDriver();

  // An allocation of its own, ready to be shared. RESOURCE_EXHAUSTED where there is no room.
  absl::StatusOr<CudaAllocation> Allocate(size_t bytes);
  void Free(absl::Span<std::byte> memory);
  // These wait for the copy. REQUIRES: both as large.
  absl::Status CopyIn(absl::Span<const std::byte> host, absl::Span<std::byte> device);
  absl::Status CopyOut(absl::Span<const std::byte> device, absl::Span<std::byte> host);

 private:
  struct Functions;

  CudaDriver(std::unique_ptr<Functions> functions, int device);

  const std::unique_ptr<Functions> functions_;
  const int device_;
  void* context_ = nullptr;  // the device's primary one
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_CUDA_DRIVER_H_
