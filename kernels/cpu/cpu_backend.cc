#include "kernels/cpu/cpu_backend.h"

#include <atomic>
#include <utility>

#include "kernels/cpu/block_forward.h"
#include "kernels/cpu/forward_plan.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/thread_pool.h"

namespace tessera {
namespace {

class CpuBackend final : public AttentionBackend {
 public:
  explicit CpuBackend(int threads) : pool_(threads) {}

  absl::string_view name() const override { return "cpu"; }

  absl::Status Forward(const AttentionParams& params, absl::Span<const SequenceView> sequences, StreamHandle,
                       ForwardStats* stats) override {
    return ForwardUntilStopped(params, sequences, std::stop_token(), stats);
  }

  absl::Status ForwardUntilStopped(const AttentionParams& params, absl::Span<const SequenceView> sequences,
                                   const std::stop_token& stop, ForwardStats* stats) override {
    if (absl::Status status = ValidateBatch(params, sequences); !status.ok()) return status;
    const ForwardPlan plan(params, sequences);
    // The caller's scratch is taken first: with it the call can always be finished, by one thread if need be.
    std::unique_ptr<Scratch> callers = scratch_.Take();
    if (callers == nullptr) return absl::ResourceExhaustedError("no memory for the CPU kernel's scratch");
    const std::thread::id caller = std::this_thread::get_id();
    pool_.Run(plan.size(), [&](WorkCursor& cursor) {
      std::unique_ptr<Scratch> scratch = std::this_thread::get_id() == caller ? std::move(callers) : scratch_.Take();
      if (scratch == nullptr) return;
      for (int64_t i = cursor.Next(); i >= 0 && !stop.stop_requested(); i = cursor.Next()) {
        const ForwardPlan::Item item = plan[i];
        ForwardBlock(params, sequences[item.sequence], item.block, *scratch, stop);
      }
      scratch_.Return(std::move(scratch));
    });
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    if (stats != nullptr) *stats = plan.stats();
    return absl::OkStatus();
  }

 private:
  ScratchPool scratch_;
  ThreadPool pool_;
};

}  // namespace

std::unique_ptr<AttentionBackend> MakeCpuBackend(int threads) {
  return std::make_unique<CpuBackend>(threads > 0 ? threads : AvailableCores());
}

}  // namespace tessera
