#include "server/device/cuda/testing/fake_gpu_kernels.h"

#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "kernels/cpu/paged_backend.h"

namespace tessera {

absl::Status NoGpuKernel::Forward(const AttentionParams&, absl::Span<const SequenceView>, StreamHandle, ForwardStats*) {
  return absl::InternalError("the device is asked for steps alone");
}

FakePagedKernel::FakePagedKernel(FakeCudaCalls* calls) : calls_(calls), cpu_(MakeCpuPagedBackend(/*threads=*/1)) {}

absl::Status FakePagedKernel::Extend(const PagedParams& params, absl::Span<const PagedSequence> sequences,
                                     StreamHandle stream, ForwardStats* stats) {
  if (!error.ok()) return error;
  ++launches_;
  calls_->Launch(stream, kTime, [this, params, views = std::vector<PagedSequence>(sequences.begin(), sequences.end())] {
    if (on_kernel) on_kernel();
    ABSL_RAW_CHECK(cpu_->Extend(params, views, /*stream=*/nullptr, nullptr).ok(), "the kernel computes");
  });
  *stats = {.flops = kFlops};
  return absl::OkStatus();
}

}  // namespace tessera
