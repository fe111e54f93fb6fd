#include "kernels/cuda/cuda_backend.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/forward_plan.h"
#include "kernels/cuda/scratch_pool.h"
#include "kernels/cuda/table_upload.h"
#include "kernels/cuda/tensor_map.h"

namespace tessera::cuda {
namespace {

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

class CudaBackend final : public GpuBackend {
 public:
  CudaBackend(int device, int multiprocessors, KernelFamily family, TensorMapEncoder encoder, ScratchPool scratch)
      : device_(device),
        multiprocessors_(multiprocessors),
        family_(family),
        encoder_(std::move(encoder)),
        scratch_(std::move(scratch)) {}

  absl::string_view name() const override { return Name(family_); }

  absl::Status Forward(const AttentionParams& params, absl::Span<const SequenceView> sequences, StreamHandle stream,
                       ForwardStats* stats) override {
    absl::Status status = ValidateParams(params);
    for (const SequenceView& sequence : sequences) {
      if (status.ok()) status = ValidateSequence(params, sequence);
    }
    if (!status.ok()) return status;
    status = ToStatus(cudaSetDevice(device_), "selecting the device");
    if (!status.ok()) return status;
    if (stats != nullptr) *stats = {};

    // A launch for each kernel that some sequence asks for: most often one.
    std::vector<KernelBatch> batches;
    for (const SequenceView& sequence : sequences) {
      const bool computes = family_ == KernelFamily::kSm90a && Sm90aComputes(params, sequence);
      const KernelFamily family = computes ? family_ : KernelFamily::kSm80;
      const ForwardKernelEntry& kernel = ChooseKernel(family, params, sequence);
      const auto found = std::find_if(batches.begin(), batches.end(),
                                      [&](const KernelBatch& batch) { return batch.kernel == &kernel; });
      KernelBatch& batch = found != batches.end() ? *found : batches.emplace_back(KernelBatch{&kernel, family});
      batch.sequences.push_back(sequence);
    }
    for (KernelBatch& batch : batches) {
      absl::StatusOr<ForwardPlan> plan = PlanForward(params, batch.sequences, *batch.kernel,
                                                     batch.family == KernelFamily::kSm90a ? &encoder_ : nullptr);
      if (!plan.ok()) return plan.status();
      batch.plan = *std::move(plan);
    }
    for (const KernelBatch& batch : batches) {
      if (stats != nullptr) {
        for (const SequenceView& sequence : batch.sequences) *stats += ModelForward(params, sequence, *batch.kernel);
      }
      status = Launch(params, batch.plan, *batch.kernel, static_cast<cudaStream_t>(stream));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> PeakScratchBytes() const override { return scratch_.PeakBytes(); }
  absl::StatusOr<int64_t> ReservedScratchBytes() const override { return scratch_.ReservedBytes(); }

 private:
  // The sequences of a call that one kernel computes.
  struct KernelBatch {
    const ForwardKernelEntry* kernel;
    KernelFamily family;
    std::vector<SequenceView> sequences = {};
    ForwardPlan plan = {};
  };

  // One launch: table to the device, kernel, table freed in stream order. Nothing for a plan without tiles.
  absl::Status Launch(const AttentionParams& params, const ForwardPlan& plan, const ForwardKernelEntry& kernel,
                      cudaStream_t stream) {
    if (plan.tile_count == 0) return absl::OkStatus();

    // [counter, 128 bytes][sequences][sections]
    constexpr size_t kSequencesAt = 128;
    const size_t sections_at = kSequencesAt + plan.sequences.size() * sizeof(SequenceEntry);
    const size_t bytes = RoundUp(sections_at + plan.sections.size() * sizeof(TileSection), 16);
    std::vector<unsigned char> table(bytes);
    std::memcpy(table.data() + kSequencesAt, plan.sequences.data(), plan.sequences.size() * sizeof(SequenceEntry));
    std::memcpy(table.data() + sections_at, plan.sections.data(), plan.sections.size() * sizeof(TileSection));

    absl::StatusOr<void*> block = scratch_.Allocate(bytes, stream);
    if (!block.ok()) return block.status();
    unsigned char* device = static_cast<unsigned char*>(*block);
    absl::Status status = ToStatus(UploadTable(device, table.data(), bytes, 0, stream), "uploading the launch table");
    if (status.ok()) {
      ForwardLaunch launch = {};
      launch.sequences = reinterpret_cast<const SequenceEntry*>(device + kSequencesAt);
      launch.sections = reinterpret_cast<const TileSection*>(device + sections_at);
      launch.next_tile = reinterpret_cast<uint32_t*>(device);
      launch.section_count = static_cast<uint32_t>(plan.sections.size());
      launch.tile_count = plan.tile_count;
      launch.q_heads = params.q_heads;
      launch.head_dim = params.head_dim;
      launch.left = ClampSide(params.mask.left);
      launch.right = ClampSide(params.mask.right);
      launch.score_map = ScoreMap::Of(params.scale, params.softcap);
      status = ToStatus(kernel.launch(launch, multiprocessors_, stream), "launching the forward kernel");
    }
    status.Update(scratch_.Free(*block, stream));
    return status;
  }

  const int device_;
  const int multiprocessors_;
  const KernelFamily family_;
  const TensorMapEncoder encoder_;
  const ScratchPool scratch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GpuBackend>> CreateCudaBackend(int device) {
  int major = 0, minor = 0;
  cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  const absl::Status status = ToStatus(error, absl::StrCat("looking at CUDA device ", device));
  if (!status.ok()) return status;
  return CreateCudaBackend(device, FamilyOf(major, minor));
}

absl::StatusOr<std::unique_ptr<GpuBackend>> CreateCudaBackend(int device, KernelFamily family) {
  int multiprocessors = 0;
  const absl::Status status = ToStatus(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
                                       absl::StrCat("looking at CUDA device ", device));
  if (!status.ok()) return status;
  absl::StatusOr<TensorMapEncoder> encoder = TensorMapEncoder::Create();
  if (!encoder.ok()) return encoder.status();
  absl::StatusOr<ScratchPool> scratch = ScratchPool::Create(device);
  if (!scratch.ok()) return scratch.status();
  return std::make_unique<CudaBackend>(device, multiprocessors, family, *std::move(encoder), *std::move(scratch));
}

}  // namespace tessera::cuda
