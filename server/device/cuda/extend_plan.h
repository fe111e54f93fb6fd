// What a batch of steps on resident sequences moves to the device and back, and what the kernel is told of it.
#ifndef TESSERA_SERVER_DEVICE_CUDA_EXTEND_PLAN_H_
#define TESSERA_SERVER_DEVICE_CUDA_EXTEND_PLAN_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "kernels/paged_attention.h"
#include "server/device/cuda/cuda_calls.h"
#include "server/device/cuda/step_tables.h"
#include "server/device/cuda/transfer_plan.h"
#include "server/device/device.h"

namespace tessera {

class ExtendPlan {
 public:
  // `side_memory` is where the tables are in pinned memory. REQUIRES: items, tables and side memory outlive the plan;
  // inputs and outputs are buffers of one staging pool, none given twice.
  ExtendPlan(absl::Span<const ExtendItem> items, const StepTables& tables, absl::Span<const std::byte> side_memory);
  ExtendPlan(const ExtendPlan&) = delete;
  ExtendPlan& operator=(const ExtendPlan&) = delete;

  // Of inputs, tables and outputs.
  const TransferPlan& transfers() const { return transfers_; }

  // In this order, each of them in any: pages to be cleared; pages that come back from the host; copies of pages, and
  // what goes to the device block at `block`; once the kernel has run, what comes back from there, and pages that leave
  // for the host.
  std::vector<CudaCopy> Fills() const;
  std::vector<CudaCopy> PagesFromHost() const;
  std::vector<CudaCopy> CopiesAndInputs(std::byte* block) const;
  std::vector<CudaCopy> Outputs(std::byte* block) const;
  std::vector<CudaCopy> PagesToHost() const;

  // Whether there is anything to do before the kernel, and after it.
  bool copies_in() const;
  bool copies_out() const;

  // All items' sequences as the kernel sees them.
  std::vector<PagedSequence> Views(std::byte* block) const;

 private:
  static std::vector<BatchItem> BuffersOf(absl::Span<const ExtendItem> items, absl::Span<const std::byte> side_memory);

  const absl::Span<const ExtendItem> items_;
  const StepTables& tables_;
  const std::vector<BatchItem> buffers_;  // one an item; then one of the tables
  const TransferPlan transfers_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_CUDA_EXTEND_PLAN_H_
