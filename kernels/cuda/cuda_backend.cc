#include "kernels/cuda/cuda_backend.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/forward_plan.h"
#include "kernels/cuda/pages_view.h"
#include "kernels/cuda/scratch_pool.h"
#include "kernels/cuda/table_upload.h"
#include "kernels/cuda/tensor_map.h"

namespace tessera::cuda {
namespace {

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

class CudaBackend final : public ForwardBackend {
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

    std::vector<KernelBatch> batches;
    for (const SequenceView& sequence : sequences) BatchFor(params, sequence, batches).sequences.push_back(sequence);
    return Run(params, batches, static_cast<cudaStream_t>(stream), stats);
  }

  bool ReadsPages(const PagedParams& params, const PagedSequence& sequence) const override {
    return family_ == KernelFamily::kSm90a && Sm90aReadsPages(params, sequence);
  }

  absl::Status ForwardPages(const PagedParams& params, absl::Span<const PagedSequence> sequences, StreamHandle stream,
                            ForwardStats* stats) override {
    const absl::Status status = ToStatus(cudaSetDevice(device_), "selecting the device");
    if (!status.ok()) return status;
    if (stats != nullptr) *stats = {};
    std::vector<KernelBatch> batches;
    for (const PagedSequence& sequence : sequences) {
      const SequenceView view = ViewOfPages(params, sequence);
      KernelBatch& batch = BatchFor(params.attention, view, batches);
      batch.sequences.push_back(view);
      batch.pages.push_back(PagesOf(params, sequence));
    }
    return Run(params.attention, batches, static_cast<cudaStream_t>(stream), stats);
  }

  int64_t TileKeys(const AttentionParams& params, const SequenceView& sequence) const override {
    return ChooseKernel(FamilyFor(params, sequence), params, sequence).tile_keys;
  }

  absl::StatusOr<int64_t> PeakScratchBytes() const override { return scratch_.PeakBytes(); }
  absl::StatusOr<int64_t> ReservedScratchBytes() const override { return scratch_.ReservedBytes(); }

 private:
  // The sequences of a call that one kernel computes.
  struct KernelBatch {
    const ForwardKernelEntry* kernel;
    KernelFamily family;
    std::vector<SequenceView> sequences = {};
    std::vector<PagesView> pages = {};  // of each sequence, or none
    ForwardPlan plan = {};
  };

  KernelFamily FamilyFor(const AttentionParams& params, const SequenceView& sequence) const {
    return family_ == KernelFamily::kSm90a && Sm90aComputes(params, sequence) ? family_ : KernelFamily::kSm80;
  }

  // The one of `batches` that `sequence` belongs to, a new one if need be: a launch for each kernel that some sequence
  // asks for, most often one.
  KernelBatch& BatchFor(const AttentionParams& params, const SequenceView& sequence,
                        std::vector<KernelBatch>& batches) const {
    const KernelFamily family = FamilyFor(params, sequence);
    const ForwardKernelEntry& kernel = ChooseKernel(family, params, sequence);
    const auto found =
        std::find_if(batches.begin(), batches.end(), [&](const KernelBatch& batch) { return batch.kernel == &kernel; });
    return found != batches.end() ? *found : batches.emplace_back(KernelBatch{&kernel, family});
  }

  absl::Status Run(const AttentionParams& params, std::vector<KernelBatch>& batches, cudaStream_t stream,
                   ForwardStats* stats) {
    for (KernelBatch& batch : batches) {
      absl::StatusOr<ForwardPlan> plan = PlanForward(params, batch.sequences, batch.pages, *batch.kernel,
                                                     batch.family == KernelFamily::kSm90a ? &encoder_ : nullptr);
      if (!plan.ok()) return plan.status();
      batch.plan = *std::move(plan);
    }
    for (KernelBatch& batch : batches) {
      if (stats != nullptr) {
        for (const SequenceView& sequence : batch.sequences) *stats += ModelForward(params, sequence, *batch.kernel);
      }
      const absl::Status status = Launch(params, batch.plan, *batch.kernel, stream);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // One launch: table to the device, kernel, table freed in stream order. Nothing for a plan without tiles.
  absl::Status Launch(const AttentionParams& params, ForwardPlan& plan, const ForwardKernelEntry& kernel,
                      cudaStream_t stream) {
    if (plan.tile_count == 0) return absl::OkStatus();

    // [counter, 128 bytes][sequences][page maps][sections]
    constexpr size_t kSequencesAt = 128;
    const size_t maps_at = kSequencesAt + plan.sequences.size() * sizeof(SequenceEntry);
    const size_t sections_at = maps_at + plan.page_maps.size() * sizeof(PageMaps);
    const size_t bytes = RoundUp(sections_at + plan.sections.size() * sizeof(TileSection), 16);
    absl::StatusOr<void*> block = scratch_.Allocate(bytes, stream);
    if (!block.ok()) return block.status();
    unsigned char* device = static_cast<unsigned char*>(*block);

    for (size_t i = 0; i < plan.page_maps.size(); ++i) {
      plan.sequences[i].shape.pages.maps = reinterpret_cast<const PageMaps*>(device + maps_at) + i;
    }
    std::vector<unsigned char> table(bytes);
    std::memcpy(table.data() + kSequencesAt, plan.sequences.data(), plan.sequences.size() * sizeof(SequenceEntry));
    std::memcpy(table.data() + maps_at, plan.page_maps.data(), plan.page_maps.size() * sizeof(PageMaps));
    std::memcpy(table.data() + sections_at, plan.sections.data(), plan.sections.size() * sizeof(TileSection));
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
      launch.in_pages = !plan.page_maps.empty();
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

absl::StatusOr<std::unique_ptr<ForwardBackend>> CreateCudaBackend(int device) {
  int major = 0, minor = 0;
  cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  const absl::Status status = ToStatus(error, absl::StrCat("looking at CUDA device ", device));
  if (!status.ok()) return status;
  return CreateCudaBackend(device, FamilyOf(major, minor));
}

absl::StatusOr<std::unique_ptr<ForwardBackend>> CreateCudaBackend(int device, KernelFamily family) {
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
