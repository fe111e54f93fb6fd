#include "server/request/extend_job.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "server/request/attend_job.h"

namespace tessera {

ExtendJob::ExtendJob(Traits traits, ResidentCachePtr cache, ExtendShape shape, StagingBuffer input,
                     StagingBuffer output, ByteBudget::Charge charge, DoneFn done)
    : DeviceJob(std::move(traits), shape.params.dtype, JobKind::kExtend),
      cache_(std::move(cache)),
      shape_(std::move(shape)),
      input_(std::move(input)),
      output_(std::move(output)),
      charge_(std::move(charge)),
      done_(std::move(done)) {
  ABSL_RAW_CHECK(static_cast<int64_t>(input_.size()) == shape_.input_bytes(), "input is as large as the shape says");
  ABSL_RAW_CHECK(static_cast<int64_t>(output_.size()) == shape_.output_bytes(), "output is as large as the shape says");
}

void ExtendJob::Begin(SequenceTurns::Turn turn, CacheStep step, int64_t cost) {
  ABSL_RAW_CHECK(step.size() == shape_.entries.size(), "the step is of the call's entries");
  SetCost(cost);
  turn_ = std::move(turn);
  step_.emplace(std::move(step));
  for (const PageRef page : step_->scrubs()) fills_.push_back(cache_->pages().Clearing(page));
  for (const PageCopy& copy : step_->copies()) cache_->pages().AppendCopies(copy, &copies_);
  LayViews();
}

void ExtendJob::LayViews() {
  const AttentionParams& params = shape_.params;
  const int64_t head_bytes = params.head_dim * SizeOf(params.dtype);
  std::byte* q = input_.data();
  std::byte* k = q + shape_.q_bytes;
  std::byte* v = k + shape_.kv_bytes;
  std::byte* o = output_.data();
  std::byte* lse = shape_.return_lse ? o + shape_.q_bytes : nullptr;
  sequences_.reserve(shape_.entries.size());
  lengths_.reserve(shape_.entries.size());
  for (size_t i = 0; i < shape_.entries.size(); ++i) {
    const ExtendEntry& entry = shape_.entries[i];
    const EntryPages pages = step_->entry(i);
    const int64_t q_bytes = entry.q_tokens * params.q_heads * head_bytes;
    const int64_t kv_bytes = entry.append_tokens * params.kv_heads * head_bytes;
    PagedSequence view;
    view.q_len = entry.q_tokens;
    view.kv_len = pages.length;
    view.append_len = entry.append_tokens;
    view.layer = cache_->pages().layer(entry.layer);
    view.pages = pages.pages;
    view.q = std::exchange(q, q + q_bytes);
    view.k = std::exchange(k, k + kv_bytes);
    view.v = std::exchange(v, v + kv_bytes);
    view.o = std::exchange(o, o + q_bytes);
    if (lse != nullptr) {
      const int64_t lse_bytes = entry.q_tokens * params.q_heads * static_cast<int64_t>(sizeof(float));
      view.lse = reinterpret_cast<float*>(std::exchange(lse, lse + lse_bytes));
    }
    view.q_strides = view.o_strides = Strides::Packed(params.q_heads, params.head_dim);
    view.k_strides = view.v_strides = Strides::Packed(params.kv_heads, params.head_dim);
    view.lse_strides = Strides::Packed(params.q_heads, 1);
    sequences_.push_back(view);
    lengths_.push_back(pages.length);
  }
}

std::shared_ptr<ExtendJob> ExtendJob::OfCopies(const ResidentCachePtr& cache, CacheStep step, std::string tenant,
                                               JobPriority priority, DoneFn done) {
  const CacheProfile& profile = cache->profile();
  ExtendShape shape;
  shape.params.dtype = profile.dtype;
  shape.params.q_heads = shape.params.kv_heads = profile.kv_heads;
  shape.params.head_dim = profile.head_dim;
  Traits traits;
  traits.key = Key(shape.params, *cache);
  traits.tenant = std::move(tenant);
  traits.priority = priority;
  const double bytes = static_cast<double>(profile.page_bytes()) * static_cast<double>(step.copies().size());
  traits.cost = static_cast<int64_t>(
      std::clamp(AttendShape::kFlopsPerByte * bytes, 1.0, static_cast<double>(AttendShape::kMostCost)));
  traits.sequences = 0;
  traits.device = static_cast<int>(cache->device());
  auto job = std::make_shared<ExtendJob>(std::move(traits), cache, std::move(shape), StagingBuffer(), StagingBuffer(),
                                         ByteBudget::Charge(), std::move(done));
  job->Begin(SequenceTurns::Turn(), std::move(step), job->traits().cost);
  return job;
}

BatchKey ExtendJob::Key(const AttentionParams& params, const ResidentCache& cache) {
  BatchKey key = AttendJob::Key(params);
  static_assert(sizeof(void*) <= sizeof(uint64_t));
  ABSL_RAW_CHECK(key.words[5] == 0, "an Attend call's key leaves the last word free");
  key.words[5] = reinterpret_cast<uintptr_t>(&cache);
  return key;
}

void ExtendJob::OnEnded(const absl::Status& status, State where) {
  if (status.ok()) {
    sequences_.clear();  // their tables are the step's
    step_->Commit();
    step_.reset();
    turn_.GiveBack();
  }
  std::exchange(done_, nullptr)(status, where);
}

}  // namespace tessera
