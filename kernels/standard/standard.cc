#include "kernels/standard/standard.h"

#include <atomic>

#include "kernels/cpu/thread_pool.h"
#include "kernels/standard/standard_head.h"
#include "kernels/traffic_model.h"

namespace tessera {
namespace {

// Bytes of one sequence: each tensor once for each query head, S and P written and read back.
double StandardBytes(const AttentionParams& params, const SequenceView& sequence) {
  const double rows = static_cast<double>(sequence.q_len);
  const double keys = static_cast<double>(sequence.kv_len);
  const double head = 2 * (rows + keys) * params.head_dim + 4 * rows * keys;
  return params.q_heads * head * static_cast<double>(SizeOf(params.dtype));
}

class StandardBackend final : public AttentionBackend {
 public:
  explicit StandardBackend(int threads) : pool_(threads) {}

  absl::string_view name() const override { return "standard"; }

  absl::Status Forward(const AttentionParams& params, absl::Span<const SequenceView> sequences, StreamHandle,
                       ForwardStats* stats) override {
    if (absl::Status status = ValidateBatch(params, sequences); !status.ok()) return status;
    std::atomic<bool> out_of_memory{false};
    const int64_t heads = params.q_heads;
    pool_.Run(static_cast<int64_t>(sequences.size()) * heads, [&](WorkCursor& cursor) {
      StandardWorkspace workspace;
      for (int64_t i = cursor.Next(); i >= 0 && !out_of_memory; i = cursor.Next()) {
        if (!StandardHead(params, sequences[i / heads], i % heads, workspace)) out_of_memory = true;
      }
    });
    if (out_of_memory) return absl::ResourceExhaustedError("no memory for the scores of standard attention");
    if (stats != nullptr) {
      *stats = {};
      for (const SequenceView& sequence : sequences) {
        stats->flops += ForwardFlops(params, sequence);
        stats->hbm_bytes += StandardBytes(params, sequence);
      }
    }
    return absl::OkStatus();
  }

 private:
  ThreadPool pool_;
};

}  // namespace

std::unique_ptr<AttentionBackend> MakeStandardBackend(int threads) {
  return std::make_unique<StandardBackend>(threads > 0 ? threads : AvailableCores());
}

}  // namespace tessera
