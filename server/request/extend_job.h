// One Extend call inside the server: where its bytes are, and what is to be done to which pages.
#ifndef TESSERA_SERVER_REQUEST_EXTEND_JOB_H_
#define TESSERA_SERVER_REQUEST_EXTEND_JOB_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/paged_attention.h"
#include "server/cache/cache_step.h"
#include "server/memory/byte_budget.h"
#include "server/memory/memory_work.h"
#include "server/memory/staging_pool.h"
#include "server/request/device_job.h"
#include "server/request/extend_shape.h"
#include "server/request/page_store.h"
#include "server/request/resident_cache.h"
#include "server/request/sequence_turns.h"

namespace tessera {

// Lives as AttendJob does. Between its making and its turn (SequenceTurns) it may end, but not be queued. Its step is
// committed when it ends well; otherwise the step, and with it the turn, is kept until nobody holds the job any more: a
// device may still be writing to the pages of a call that has been cancelled.
class ExtendJob final : public DeviceJob {
 public:
  // Runs once, on the thread that ended the job, with no lock of the scheduler or engine held. Must not block.
  using DoneFn = std::function<void(const absl::Status& status, State where)>;

  // `input` holds q, k, v end to end, `output` takes o, LSE end to end, entries in order. REQUIRES: the buffers are as
  // large as the shape says.
  ExtendJob(Traits traits, ResidentCachePtr cache, ExtendShape shape, StagingBuffer input, StagingBuffer output,
            ByteBudget::Charge charge, DoneFn done);

  // The job's turn has come, this is its step, and this what it costs at the lengths that the sequences have now.
  // REQUIRES: called once, before the job is enqueued; the step was reserved for the shape's entries.
  void Begin(SequenceTurns::Turn turn, CacheStep step, int64_t cost);

  ResidentCache& cache() const { return *cache_; }
  const ResidentCachePtr& shared_cache() const { return cache_; }
  const ExtendShape& shape() const { return shape_; }
  StagingBuffer& input() { return input_; }
  StagingBuffer& output() { return output_; }
  // In the lines of its sequences.
  SequenceTurns::Place& place() { return place_; }
  const SequenceTurns::Place& place() const { return place_; }

  // What a device does, in this order; the last of them reads and writes the buffers. REQUIRES, of all: Begin.
  absl::Span<const MemoryFill> fills() const { return fills_; }
  const PageCopies& copies() const { return copies_; }
  absl::Span<const PagedSequence> sequences() const { return sequences_; }
  // Of the pages, and what the call asks for: the same for all jobs of one key.
  PagedParams params() const { return cache_->pages().ParamsFor(shape_.params); }
  // The layer's length after the step, of each entry.
  const std::vector<int64_t>& lengths() const { return lengths_; }

  // A job without entries, that only does a step's copies. REQUIRES: the step has no entries.
  static std::shared_ptr<ExtendJob> OfCopies(const ResidentCachePtr& cache, CacheStep step, std::string tenant,
                                             JobPriority priority, DoneFn done);

  // Equal keys mean equal parameters and the same cache; never equal to an AttendJob's.
  static BatchKey Key(const AttentionParams& params, const ResidentCache& cache);

 private:
  void OnEnded(const absl::Status& status, State where) override;
  void LayViews();

  const ResidentCachePtr cache_;
  const ExtendShape shape_;
  StagingBuffer input_;
  StagingBuffer output_;
  SequenceTurns::Place place_;
  SequenceTurns::Turn turn_;  // given back after the step, so destroyed after it
  std::optional<CacheStep> step_;
  std::vector<MemoryFill> fills_;
  PageCopies copies_;
  std::vector<PagedSequence> sequences_;
  std::vector<int64_t> lengths_;
  ByteBudget::Charge charge_;
  DoneFn done_;
};

using ExtendJobPtr = std::shared_ptr<ExtendJob>;

}  // namespace tessera

#endif  // TESSERA_SERVER_REQUEST_EXTEND_JOB_H_
