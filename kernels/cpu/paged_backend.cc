#include "kernels/cpu/paged_backend.h"

#include <new>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/append_rows.h"
#include "kernels/cpu/paged_blocks.h"
#include "kernels/cpu/paged_plan.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/split_partial.h"
#include "kernels/cpu/thread_pool.h"

namespace tessera {
namespace {

class CpuPagedBackend final : public PagedAttentionBackend {
 public:
  explicit CpuPagedBackend(int threads) : pool_(threads) {}

  absl::Status Extend(const PagedParams& params, absl::Span<const PagedSequence> sequences, StreamHandle,
                      ForwardStats* stats) override {
    return ExtendUntilStopped(params, sequences, std::stop_token(), stats);
  }

  absl::Status ExtendUntilStopped(const PagedParams& params, absl::Span<const PagedSequence> sequences,
                                  const std::stop_token& stop, ForwardStats* stats) override {
    if (absl::Status status = ValidatePagedBatch(params, sequences); !status.ok()) return status;
    const PagedPlan plan(params, sequences);
    const int64_t head_dim = params.attention.head_dim;
    // All memory comes first: with the caller's scratch the call can always be finished, by one thread if need be.
    std::unique_ptr<Scratch> callers = scratch_.Take();
    const std::unique_ptr<float[]> partials(new (std::nothrow) float[plan.partial_floats()]);
    if (callers == nullptr || partials == nullptr) {
      if (callers != nullptr) scratch_.Return(std::move(callers));
      return absl::ResourceExhaustedError("no memory for the CPU kernel's scratch");
    }

    pool_.Run(static_cast<int64_t>(sequences.size()), [&](WorkCursor& cursor) {
      for (int64_t i = cursor.Next(); i >= 0; i = cursor.Next()) AppendRows(params, sequences[i]);
    });
    const std::vector<PagedPlan::Item>& items = plan.items();
    RunWithScratch(static_cast<int64_t>(items.size()), *callers, [&](int64_t i, Scratch& scratch) {
      const PagedPlan::Item& item = items[i];
      const PagedSequence& sequence = sequences[item.sequence];
      if (stop.stop_requested()) return;
      if (item.partial < 0) return ForwardPagedBlock(params, sequence, item.block, scratch, stop);
      const SplitPartial partial = SplitPartial::In(partials.get() + item.partial, item.block.rows, head_dim);
      ForwardSplit(params, sequence, item.block.kv_head, item.split, partial, scratch);
    });
    if (stop.stop_requested()) {
      scratch_.Return(std::move(callers));
      return absl::CancelledError("stopped");
    }
    const std::vector<PagedPlan::Head>& heads = plan.heads();
    RunWithScratch(static_cast<int64_t>(heads.size()), *callers, [&](int64_t i, Scratch& scratch) {
      const PagedPlan::Head& head = heads[i];
      std::vector<SplitPartial> splits;
      for (int64_t split = 0; split < head.splits; ++split) {
        float* memory = partials.get() + head.partial + split * SplitPartial::Floats(head.rows, head_dim);
        splits.push_back(SplitPartial::In(memory, head.rows, head_dim));
      }
      CombineSplits(params, sequences[head.sequence], head.kv_head, splits, scratch);
    });
    scratch_.Return(std::move(callers));
    if (stats != nullptr) *stats = plan.stats();
    return absl::OkStatus();
  }

 private:
  // Calls `work` with 0 .. items - 1, the caller with its own scratch, other threads with what they can get.
  void RunWithScratch(int64_t items, Scratch& callers, absl::FunctionRef<void(int64_t, Scratch&)> work) {
    const std::thread::id caller = std::this_thread::get_id();
    pool_.Run(items, [&](WorkCursor& cursor) {
      std::unique_ptr<Scratch> own;
      if (std::this_thread::get_id() != caller) {
        own = scratch_.Take();
        if (own == nullptr) return;
      }
      Scratch& scratch = own != nullptr ? *own : callers;
      for (int64_t i = cursor.Next(); i >= 0; i = cursor.Next()) work(i, scratch);
      if (own != nullptr) scratch_.Return(std::move(own));
    });
  }

  ScratchPool scratch_;
  ThreadPool pool_;
};

}  // namespace

std::unique_ptr<PagedAttentionBackend> MakeCpuPagedBackend(int threads) {
  return std::make_unique<CpuPagedBackend>(threads > 0 ? threads : AvailableCores());
}

}  // namespace tessera
