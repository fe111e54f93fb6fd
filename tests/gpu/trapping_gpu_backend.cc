// The kernels of a server that is built for tests: after as many launches as TESSERA_TRAP_AFTER in the environment
// says, the next one is a kernel that breaks the device. TESSERA_TRAP_DEVICE says which GPU; without it, each one.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "kernels/cuda/cuda_backend.h"
#include "server/gpu_backend.h"
#include "tests/gpu/trap.h"

namespace tessera {
namespace {

class TrappingBackend final : public cuda::GpuBackend {
 public:
  TrappingBackend(std::unique_ptr<cuda::GpuBackend> backend, int64_t launches)
      : backend_(std::move(backend)), launches_left_(launches) {}

  absl::string_view name() const override { return backend_->name(); }
  absl::Status Forward(const AttentionParams& params, absl::Span<const SequenceView> sequences, StreamHandle stream,
                       ForwardStats* stats) override {
    if (launches_left_.fetch_sub(1) == 0) testing::LaunchTrap(static_cast<cudaStream_t>(stream));
    return backend_->Forward(params, sequences, stream, stats);
  }
  absl::StatusOr<int64_t> PeakScratchBytes() const override { return backend_->PeakScratchBytes(); }
  absl::StatusOr<int64_t> ReservedScratchBytes() const override { return backend_->ReservedScratchBytes(); }

 private:
  const std::unique_ptr<cuda::GpuBackend> backend_;
  std::atomic<int64_t> launches_left_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<cuda::GpuBackend>> MakeGpuBackend(int number) {
  const char* const text = std::getenv("TESSERA_TRAP_AFTER");
  int64_t launches;
  if (text == nullptr || !absl::SimpleAtoi(text, &launches)) {
    return absl::InvalidArgumentError("TESSERA_TRAP_AFTER: not a number");
  }
  const char* const only = std::getenv("TESSERA_TRAP_DEVICE");
  int device = number;
  if (only != nullptr && !absl::SimpleAtoi(only, &device)) {
    return absl::InvalidArgumentError("TESSERA_TRAP_DEVICE: not a number");
  }
  absl::StatusOr<std::unique_ptr<cuda::GpuBackend>> backend = cuda::CreateCudaBackend(number);
  if (!backend.ok() || device != number) return backend;
  return std::make_unique<TrappingBackend>(*std::move(backend), launches);
}

absl::StatusOr<std::unique_ptr<cuda::GpuPagedBackend>> MakeGpuPagedBackend(int number) {
  return cuda::CreatePagedBackend(number);
}

}  // namespace tessera
