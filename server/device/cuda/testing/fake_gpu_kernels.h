// Kernels for GPUs that are not there, of devices that are asked for steps on resident sequences alone.
#ifndef TESSERA_SERVER_DEVICE_CUDA_TESTING_FAKE_GPU_KERNELS_H_
#define TESSERA_SERVER_DEVICE_CUDA_TESTING_FAKE_GPU_KERNELS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/attention.h"
#include "kernels/cuda/gpu_backend.h"
#include "kernels/cuda/paged/paged_backend.h"
#include "kernels/paged_attention.h"
#include "server/device/cuda/testing/fake_cuda_calls.h"

namespace tessera {

// For calls without pages, of which there are none.
class NoGpuKernel final : public cuda::GpuBackend {
 public:
  static constexpr int64_t kReservedBytes = 100;

  absl::string_view name() const override { return "sm90a"; }
  absl::Status Forward(const AttentionParams& params, absl::Span<const SequenceView> sequences, StreamHandle stream,
                       ForwardStats* stats) override;
  absl::StatusOr<int64_t> PeakScratchBytes() const override { return 1; }
  absl::StatusOr<int64_t> ReservedScratchBytes() const override { return kReservedBytes; }
};

// The CPU's attention over pages, when its turn in the stream comes.
class FakePagedKernel final : public cuda::GpuPagedBackend {
 public:
  static constexpr absl::Duration kTime = absl::Milliseconds(5);
  static constexpr int64_t kFlops = 7;
  static constexpr int64_t kReservedBytes = 20;

  // The calls outlive the kernel.
  explicit FakePagedKernel(FakeCudaCalls* calls);

  absl::Status Extend(const PagedParams& params, absl::Span<const PagedSequence> sequences, StreamHandle stream,
                      ForwardStats* stats) override;
  absl::StatusOr<int64_t> PeakScratchBytes() const override { return 1; }
  absl::StatusOr<int64_t> ReservedScratchBytes() const override { return kReservedBytes; }

  int launches() const { return launches_; }

  // Set while nothing runs: what Extend returns in place of launching; what is called before each kernel.
  absl::Status error;
  std::function<void()> on_kernel;

 private:
  FakeCudaCalls* const calls_;
  const std::unique_ptr<PagedAttentionBackend> cpu_;
  std::atomic<int> launches_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_CUDA_TESTING_FAKE_GPU_KERNELS_H_
