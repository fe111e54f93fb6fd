#include "kernels/cuda/standard/standard_backend.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/forward_plan.h"
#include "kernels/cuda/scratch_pool.h"
#include "kernels/cuda/standard/standard.h"
#include "kernels/traffic_model.h"

namespace tessera::cuda {
namespace {

constexpr int64_t kMaxHeads = 65535;          // of a launch: the grid's third dimension
constexpr int64_t kMaxQueries = 65535 * 128;  // the grid's second dimension, in tiles of 128 rows

// As many of the sequence's heads as the budget holds at a time, at least one.
int64_t HeadsAtOnce(const AttentionParams& params, const SequenceView& sequence, int64_t budget_bytes) {
  const int64_t one = standard::ScoreBytes(sequence.q_len, sequence.kv_len, 1, SizeOf(params.dtype));
  const int64_t fitting = one == 0 ? params.q_heads : budget_bytes / one;
  return std::clamp<int64_t>(fitting, 1, std::min<int64_t>(params.q_heads, kMaxHeads));
}

TensorStrides Convert(const Strides& strides) { return {strides.token, strides.head}; }

standard::StandardLaunch LaunchOf(const AttentionParams& params, const SequenceView& sequence) {
  standard::StandardLaunch launch = {};
  SequenceEntry& entry = launch.entry;
  entry.shape.q_len = static_cast<int32_t>(sequence.q_len);
  entry.shape.kv_len = static_cast<int32_t>(sequence.kv_len);
  entry.shape.group = 1;
  entry.shape.kv_ratio = params.q_heads / params.kv_heads;
  entry.shape.o = sequence.o;
  entry.shape.lse = sequence.lse;
  entry.shape.o_strides = Convert(sequence.o_strides);
  entry.shape.lse_strides = Convert(sequence.lse_strides);
  entry.q = sequence.q;
  entry.k = sequence.k;
  entry.v = sequence.v;
  entry.q_strides = Convert(sequence.q_strides);
  entry.k_strides = Convert(sequence.k_strides);
  entry.v_strides = Convert(sequence.v_strides);
  launch.head_dim = params.head_dim;
  launch.left = ClampSide(params.mask.left);
  launch.right = ClampSide(params.mask.right);
  launch.score_map = ScoreMap::Of(params.scale, params.softcap);
  return launch;
}

cudaError_t Enqueue(DType dtype, const standard::StandardLaunch& launch, cudaStream_t stream) {
  switch (dtype) {
    case DType::kFloat16:
      return standard::StandardForwardFp16(launch, stream);
    case DType::kBFloat16:
      return standard::StandardForwardBf16(launch, stream);
    case DType::kFloat32:
      break;
  }
  return standard::StandardForwardFp32(launch, stream);
}

class StandardBackend final : public GpuBackend {
 public:
  StandardBackend(int device, int64_t budget_bytes, ScratchPool scratch)
      : device_(device), budget_bytes_(budget_bytes), scratch_(std::move(scratch)) {}

  absl::string_view name() const override { return "standard"; }

  absl::Status Forward(const AttentionParams& params, absl::Span<const SequenceView> sequences, StreamHandle stream,
                       ForwardStats* stats) override {
    absl::Status status = ValidateParams(params);
    for (const SequenceView& sequence : sequences) {
      if (status.ok()) status = ValidateSequence(params, sequence);
      if (status.ok() && (sequence.q_len > kMaxQueries || sequence.kv_len > kMaxLength)) {
        status =
            absl::InvalidArgumentError(absl::StrCat("q_len must be at most ", kMaxQueries, " and kv_len at most ",
                                                    kMaxLength, ", got ", sequence.q_len, " and ", sequence.kv_len));
      }
    }
    if (!status.ok()) return status;
    if (stats != nullptr) *stats = Model(params, sequences);
    status = ToStatus(cudaSetDevice(device_), "selecting the device");
    if (!status.ok()) return status;

    const auto cuda_stream = static_cast<cudaStream_t>(stream);
    const auto bytes = static_cast<size_t>(StandardScratchBytes(params, sequences, budget_bytes_));
    absl::StatusOr<void*> scores = scratch_.Allocate(std::max<size_t>(bytes, 1), cuda_stream);
    if (!scores.ok()) return scores.status();
    for (const SequenceView& sequence : sequences) {
      status.Update(ForwardSequence(params, sequence, *scores, cuda_stream));
    }
    status.Update(scratch_.Free(*scores, cuda_stream));
    return status;
  }

  absl::StatusOr<int64_t> PeakScratchBytes() const override { return scratch_.PeakBytes(); }
  absl::StatusOr<int64_t> ReservedScratchBytes() const override { return scratch_.ReservedBytes(); }

 private:
  absl::Status ForwardSequence(const AttentionParams& params, const SequenceView& sequence, void* scores,
                               cudaStream_t stream) {
    standard::StandardLaunch launch = LaunchOf(params, sequence);
    launch.scores = scores;
    const auto heads_at_once = static_cast<int32_t>(HeadsAtOnce(params, sequence, budget_bytes_));
    for (int32_t head = 0; head < params.q_heads; head += heads_at_once) {
      launch.first_head = head;
      launch.heads = std::min(heads_at_once, params.q_heads - head);
      const absl::Status status = ToStatus(Enqueue(params.dtype, launch, stream), "launching standard attention");
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Q, K, V read and O written once for each query head; the scores written, then read and written again, then read.
  static ForwardStats Model(const AttentionParams& params, absl::Span<const SequenceView> sequences) {
    ForwardStats stats;
    const double size = static_cast<double>(SizeOf(params.dtype));
    for (const SequenceView& sequence : sequences) {
      const double q_len = static_cast<double>(sequence.q_len), kv_len = static_cast<double>(sequence.kv_len);
      stats.flops += ForwardFlops(params, sequence);
      stats.hbm_bytes += params.q_heads * size * (2 * (q_len + kv_len) * params.head_dim + 4 * q_len * kv_len);
    }
    return stats;
  }

  const int device_;
  const int64_t budget_bytes_;
  const ScratchPool scratch_;
};

}  // namespace

int64_t StandardScratchBytes(const AttentionParams& params, absl::Span<const SequenceView> sequences,
                             int64_t budget_bytes) {
  int64_t most = 0;
  for (const SequenceView& sequence : sequences) {
    most = std::max(most, standard::ScoreBytes(sequence.q_len, sequence.kv_len,
                                               HeadsAtOnce(params, sequence, budget_bytes), SizeOf(params.dtype)));
  }
  return most;
}

absl::StatusOr<std::unique_ptr<GpuBackend>> CreateStandardBackend(int device, int64_t budget_bytes) {
  absl::StatusOr<ScratchPool> scratch = ScratchPool::Create(device);
  if (!scratch.ok()) return scratch.status();
  return std::make_unique<StandardBackend>(device, budget_bytes, *std::move(scratch));
}

}  // namespace tessera::cuda
