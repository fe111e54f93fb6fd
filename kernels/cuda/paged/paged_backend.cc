#include "kernels/cuda/paged/paged_backend.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/forward_plan.h"
#include "kernels/cuda/paged/gathered_forward.h"
#include "kernels/cuda/paged/paged_choice.h"
#include "kernels/cuda/paged/paged_plan.h"
#include "kernels/cuda/scratch_pool.h"
#include "kernels/cuda/table_upload.h"

namespace tessera::cuda {
namespace {

using paged::PagedEntry;
using paged::PagedLaunch;
using paged::PagedPlan;
using paged::RowPath;

constexpr size_t kAlignment = 256;
constexpr std::array kOwnPaths = {RowPath::kNarrow, RowPath::kWide, RowPath::kByRow};

// The scratch memory of one call, part by part.
class Scratch {
 public:
  // The place of `bytes` bytes.
  size_t Reserve(size_t bytes) {
    const size_t at = bytes_;
    bytes_ = (bytes_ + bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

// A launch's table, in host memory and then on the device, where zeros follow it.
class Table {
 public:
  // The offset of a copy of `items`.
  template <typename T>
  size_t Add(const std::vector<T>& items) {
    const size_t at = bytes_.size();
    const auto* const first = reinterpret_cast<const unsigned char*>(items.data());
    bytes_.insert(bytes_.end(), first, first + items.size() * sizeof(T));
    bytes_.insert(bytes_.end(), RoundUp(bytes_.size()) - bytes_.size(), 0);
    return at;
  }

  // The offset of that many zero bytes, and at least one, so that there is something to enqueue. Once, after the last
  // Add.
  size_t AddZeros(size_t bytes) {
    zeros_ = RoundUp(std::max<size_t>(bytes, 1));
    return bytes_.size();
  }

  size_t device_bytes() const { return bytes_.size() + zeros_; }

  absl::Status Upload(unsigned char* device, cudaStream_t stream) const {
    return ToStatus(UploadTable(device, bytes_.data(), bytes_.size(), zeros_, stream), "uploading the launch table");
  }

 private:
  static constexpr size_t kUnit = 16;
  static size_t RoundUp(size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

  std::vector<unsigned char> bytes_;
  size_t zeros_ = 0;
};

PagedLaunch LaunchOf(const PagedParams& params) {
  const AttentionParams& attention = params.attention;
  PagedLaunch launch = {};
  launch.kv_heads = attention.kv_heads;
  launch.group = attention.q_heads / attention.kv_heads;
  launch.head_dim = attention.head_dim;
  launch.page_shift = std::countr_zero(static_cast<uint64_t>(params.page_tokens));
  launch.page_stride = params.page_stride;
  launch.page_strides = {params.strides.token, params.strides.head};
  launch.left = ClampSide(attention.mask.left);
  launch.right = ClampSide(attention.mask.right);
  launch.score_map = ScoreMap::Of(attention.scale, attention.softcap);
  return launch;
}

// What a call does: planned before anything is allocated, allocated before anything is enqueued.
struct Call {
  std::array<std::vector<PagedSequence>, 4> by_path;  // indexed by RowPath
  std::array<PagedPlan, 4> plans;
  std::vector<PagedSequence> in_place, gathered;  // of RowPath::kForward
  std::vector<PagedEntry> appends;
};

// Of new rows, each read and written.
double AppendedBytes(const PagedParams& params, const PagedSequence& sequence) {
  const double elements = 2.0 * static_cast<double>(sequence.append_len) * params.attention.kv_heads;
  return 2 * elements * params.attention.head_dim * static_cast<double>(SizeOf(params.cache_dtype));
}

constexpr size_t Index(RowPath path) { return static_cast<size_t>(path); }

absl::StatusOr<Call> PlanCall(const PagedParams& params, absl::Span<const PagedSequence> sequences,
                              const ForwardBackend& forward) {
  Call call;
  for (const PagedSequence& sequence : sequences)
    call.by_path[Index(paged::PathOf(params, sequence))].push_back(sequence);
  for (const RowPath path : kOwnPaths) {
    if (call.by_path[Index(path)].empty()) continue;
    absl::StatusOr<PagedPlan> plan =
        paged::PlanPaged(params, call.by_path[Index(path)], paged::AttentionKernel(params, path),
                         /*appends_itself=*/path != RowPath::kByRow);
    if (!plan.ok()) return plan.status();
    call.appends.insert(call.appends.end(), plan->appends.begin(), plan->appends.end());
    call.plans[Index(path)] = *std::move(plan);
  }
  for (const PagedSequence& sequence : call.by_path[Index(RowPath::kForward)]) {
    if (sequence.q_len > kMaxLength || sequence.kv_len > kMaxLength) {
      return absl::InvalidArgumentError(absl::StrCat("q_len and kv_len must be at most ", kMaxLength, ", got ",
                                                     sequence.q_len, ", ", sequence.kv_len));
    }
    if (sequence.append_len > 0) call.appends.push_back(paged::Describe(params, sequence));
    (forward.ReadsPages(params, sequence) ? call.in_place : call.gathered).push_back(sequence);
  }
  return call;
}

class CudaPagedBackend final : public GpuPagedBackend {
 public:
  CudaPagedBackend(int device, bool overlap, std::unique_ptr<ForwardBackend> forward, ScratchPool scratch)
      : device_(device), overlap_(overlap), forward_(std::move(forward)), scratch_(std::move(scratch)) {}

  absl::Status Extend(const PagedParams& params, absl::Span<const PagedSequence> sequences, StreamHandle stream,
                      ForwardStats* stats) override {
    absl::Status status = ValidatePagedBatch(params, sequences);
    if (!status.ok()) return status;
    status = ToStatus(cudaSetDevice(device_), "selecting the device");
    if (!status.ok()) return status;
    const absl::StatusOr<Call> call = PlanCall(params, sequences, *forward_);
    if (!call.ok()) return call.status();
    if (stats != nullptr) *stats = {};

    // The copies of gathered sequences follow each other in the stream and share one place.
    Scratch places;
    const size_t appends_at = places.Reserve(call->appends.size() * sizeof(PagedEntry));
    size_t gathered_bytes = 0;
    for (const PagedSequence& sequence : call->gathered) {
      gathered_bytes = std::max(gathered_bytes, paged::GatheredBytes(params, sequence, *forward_));
    }
    const size_t gathered_at = places.Reserve(gathered_bytes);
    std::array<AttendTable, 4> tables;
    for (const RowPath path : kOwnPaths) {
      if (call->plans[Index(path)].item_count == 0) continue;
      AttendTable& table = tables[Index(path)];
      table = AttendTable(call->plans[Index(path)]);
      table.at = places.Reserve(table.table.device_bytes() + table.partial_bytes);
    }
    const cudaStream_t cuda_stream = static_cast<cudaStream_t>(stream);
    absl::StatusOr<void*> block = nullptr;  // none where pages are read as they are, or nothing is to be done
    if (places.bytes() > 0) block = scratch_.Allocate(places.bytes(), cuda_stream);
    if (!block.ok()) return block.status();
    unsigned char* const device = static_cast<unsigned char*>(*block);

    if (!call->appends.empty()) status = Append(params, call->appends, device + appends_at, cuda_stream);
    for (const RowPath path : kOwnPaths) {
      if (!status.ok() || call->plans[Index(path)].item_count == 0) continue;
      status = Attend(params, path, call->plans[Index(path)], tables[Index(path)], device, cuda_stream);
      if (stats == nullptr) continue;
      for (const PagedSequence& sequence : call->by_path[Index(path)]) {
        *stats += paged::ModelPaged(params, sequence, paged::AttentionKernel(params, path));
      }
    }
    ForwardStats forwarded;
    if (status.ok() && !call->in_place.empty()) {
      status = forward_->ForwardPages(params, call->in_place, stream, &forwarded);
    }
    for (const PagedSequence& sequence : call->gathered) {
      if (!status.ok()) break;
      ForwardStats of_sequence;
      status = paged::ForwardGathered(params, sequence, *forward_, device + gathered_at, stream,
                                      overlap_ && !call->appends.empty(), &of_sequence);
      forwarded += of_sequence;
    }
    if (stats != nullptr) {
      *stats += forwarded;
      for (const PagedSequence& sequence : call->by_path[Index(RowPath::kForward)]) {
        stats->hbm_bytes += AppendedBytes(params, sequence);
      }
    }
    if (device != nullptr) status.Update(scratch_.Free(*block, cuda_stream));
    return status;
  }

  absl::StatusOr<int64_t> PeakScratchBytes() const override { return scratch_.PeakBytes(); }
  absl::StatusOr<int64_t> ReservedScratchBytes() const override {
    const absl::StatusOr<int64_t> own = scratch_.ReservedBytes();
    const absl::StatusOr<int64_t> of_forward = forward_->ReservedScratchBytes();
    if (!own.ok() || !of_forward.ok()) return own.ok() ? of_forward : own;
    return *own + *of_forward;
  }

 private:
  // The table of one attending launch, and the partial results after it.
  struct AttendTable {
    AttendTable() = default;
    explicit AttendTable(const PagedPlan& plan)
        : carried(plan.entries.size() <= paged::kCarriedEntries), partial_bytes(plan.partial_floats * sizeof(float)) {
      if (!carried) {
        entries_at = table.Add(plan.entries);
        first_items_at = table.Add(plan.first_items);
      }
      counters_at = table.AddZeros(plan.counter_count * sizeof(uint32_t));
    }

    Table table;
    bool carried = true;  // the entries, by the launch
    size_t entries_at = 0, first_items_at = 0, counters_at = 0;
    size_t partial_bytes = 0;
    size_t at = 0;  // in the call's scratch memory
  };

  absl::Status Append(const PagedParams& params, const std::vector<PagedEntry>& entries, unsigned char* device,
                      cudaStream_t stream) const {
    PagedLaunch launch = LaunchOf(params);
    const bool carried = entries.size() <= paged::kCarriedEntries;
    if (carried) {
      std::copy(entries.begin(), entries.end(), launch.carried);
    } else {
      Table table;
      table.Add(entries);
      const absl::Status status = table.Upload(device, stream);
      if (!status.ok()) return status;
      launch.entries = reinterpret_cast<const PagedEntry*>(device);
    }
    launch.entry_count = static_cast<uint32_t>(entries.size());
    int64_t most_rows = 0;
    for (const PagedEntry& entry : entries) most_rows = std::max<int64_t>(most_rows, entry.append_len);
    launch.item_count = static_cast<uint32_t>(
        std::min<int64_t>(most_rows * params.attention.kv_heads, std::numeric_limits<int32_t>::max()));
    // Without a table the kernel before it is the caller's, whose end it awaits.
    return ToStatus(paged::AppendKernelFor(params)(launch, overlap_ && !carried, stream),
                    "launching the append kernel");
  }

  absl::Status Attend(const PagedParams& params, RowPath path, const PagedPlan& plan, const AttendTable& table,
                      unsigned char* scratch, cudaStream_t stream) const {
    unsigned char* const device = scratch + table.at;
    const absl::Status status = table.table.Upload(device, stream);
    if (!status.ok()) return status;
    PagedLaunch launch = LaunchOf(params);
    if (table.carried) {
      std::copy(plan.entries.begin(), plan.entries.end(), launch.carried);
      std::copy(plan.first_items.begin(), plan.first_items.end(), launch.carried_first_items);
    } else {
      launch.entries = reinterpret_cast<const PagedEntry*>(device + table.entries_at);
      launch.first_items = reinterpret_cast<const uint32_t*>(device + table.first_items_at);
    }
    launch.counters = reinterpret_cast<uint32_t*>(device + table.counters_at);
    launch.partials = reinterpret_cast<float*>(device + table.table.device_bytes());
    launch.entry_count = static_cast<uint32_t>(plan.entries.size());
    launch.item_count = plan.item_count;
    return ToStatus(paged::AttentionKernel(params, path).launch(launch, overlap_, stream),
                    "launching the paged attention kernel");
  }

  const int device_;
  const bool overlap_;  // see PagedLauncher
  const std::unique_ptr<ForwardBackend> forward_;
  const ScratchPool scratch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GpuPagedBackend>> CreatePagedBackend(int device) {
  int major = 0;
  const absl::Status status = ToStatus(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                                       absl::StrCat("looking at CUDA device ", device));
  if (!status.ok()) return status;
  absl::StatusOr<std::unique_ptr<ForwardBackend>> forward = CreateCudaBackend(device);
  if (!forward.ok()) return forward.status();
  absl::StatusOr<ScratchPool> scratch = ScratchPool::Create(device);
  if (!scratch.ok()) return scratch.status();
  return std::make_unique<CudaPagedBackend>(device, /*overlap=*/major >= 9, *std::move(forward), *std::move(scratch));
}

}  // namespace tessera::cuda
