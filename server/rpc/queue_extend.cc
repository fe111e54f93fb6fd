#include "server/rpc/queue_extend.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/cache/cache_step.h"
#include "server/rpc/status.h"

namespace tessera {
namespace {

// How often a call lets idle sequences be moved to the host for it. Others may take what becomes free before it does.
constexpr int kMostSpills = 8;

// Ends a job that will not be queued.
void Refuse(const SequenceEnvironment& environment, const ExtendJobPtr& job, const absl::Status& status) {
  environment.attend.scheduler->Forget(*job);  // before its caller hears of it, and sends the next
  job->Finish(status);
}

// The job's turn has come.
void Begin(const SequenceEnvironment& environment, const ExtendJobPtr& job, SequenceTurns::Turn turn, int spills) {
  const ExtendShape& shape = job->shape();
  std::vector<StepEntry> entries;
  entries.reserve(shape.entries.size());
  for (const ExtendEntry& entry : shape.entries) entries.push_back({entry.sequence, entry.layer, entry.append_tokens});
  int64_t missing = 0;
  absl::StatusOr<CacheStep> step = job->cache().sequences().Reserve(job->traits().tenant, entries, &missing);
  if (!step.ok()) {
    // It keeps its turn while it waits; the job is its RPC's, and not kept once that has ended it.
    const auto kept = std::make_shared<SequenceTurns::Turn>(std::move(turn));
    const auto enqueue = [&environment](const ExtendJobPtr& copies) {
      return environment.attend.scheduler->Enqueue(copies);
    };
    const auto retry = [&environment, waits = std::weak_ptr<ExtendJob>(job), kept](int left) {
      const ExtendJobPtr again = waits.lock();
      if (again != nullptr && again->state() != Job::State::kDone) Begin(environment, again, std::move(*kept), left);
    };
    const bool moving = absl::IsAborted(step.status());  // turns leave nothing else that could be in the way
    if (spills > 0 && (missing > 0 || moving)) {
      // Waiting for the end of others' moves is no move of its own.
      const int left = moving ? spills : spills - 1;
      if (job->cache().spills().Await(*job, missing, enqueue, [retry, left] { retry(left); })) return;
      if (moving) return retry(spills - 1);  // it has ended meanwhile
    }
    // Pages do not come free on a device that is lost.
    if (absl::Status refusal = environment.attend.scheduler->Refusal(*job); !refusal.ok()) {
      return Refuse(environment, job, refusal);
    }
    // A move that has failed is in the way until its device has let go of the pages.
    const absl::Status refusal =
        moving ? absl::ResourceExhaustedError("the sequence's pages are being moved") : step.status();
    return Refuse(environment, job, WithReason(refusal, RejectReason::kKvPages));
  }
  // Calls before it may have made the sequences longer since it came.
  std::vector<int64_t> lengths;
  lengths.reserve(step->size());
  for (size_t i = 0; i < step->size(); ++i) lengths.push_back(step->entry(i).length_before);
  const absl::StatusOr<int64_t> cost = shape.CostWithin(environment.attend.limits.request, lengths);
  if (!cost.ok()) return Refuse(environment, job, cost.status());
  job->Begin(std::move(turn), *std::move(step), *cost);
  const absl::Status queued = environment.attend.scheduler->Enqueue(job);
  if (!queued.ok()) job->Finish(WithReason(queued, RejectReason::kQueue));
}

}  // namespace

absl::StatusOr<ExtendJobPtr> MakeExtendJob(const RequestLimits& limits, ExtendSpec spec, std::string tenant,
                                           absl::Time deadline, Admission::Grant grant, ExtendJob::DoneFn done) {
  std::vector<int64_t> lengths;
  lengths.reserve(spec.shape.entries.size());
  for (const ExtendEntry& entry : spec.shape.entries) {
    const absl::StatusOr<int64_t> length = spec.cache->sequences().LayerLength(tenant, entry.sequence, entry.layer);
    if (!length.ok()) return length.status();
    lengths.push_back(*length);
  }
  const absl::StatusOr<int64_t> cost = spec.shape.CostWithin(limits, lengths);
  if (!cost.ok()) return cost.status();
  Job::Traits traits;
  traits.key = ExtendJob::Key(spec.shape.params, *spec.cache);
  traits.tenant = std::move(tenant);
  traits.priority = spec.priority;
  traits.cost = *cost;
  traits.bytes = spec.shape.held_bytes();
  traits.tokens = spec.shape.q_tokens;
  traits.sequences = static_cast<int64_t>(spec.shape.entries.size());
  traits.deadline = deadline;
  traits.device = static_cast<int>(spec.cache->device());
  return std::make_shared<ExtendJob>(std::move(traits), std::move(spec.cache), std::move(spec.shape),
                                     std::move(grant.input), std::move(grant.output), std::move(grant.charge),
                                     std::move(done));
}

void QueueInTurn(const SequenceEnvironment& environment, const ExtendJobPtr& job) {
  const absl::Status expected = environment.attend.scheduler->Expect(job);
  if (!expected.ok()) {
    job->Finish(WithReason(expected, RejectReason::kQueue));
    return;
  }
  std::vector<SequenceHandle> sequences;
  sequences.reserve(job->shape().entries.size());
  for (const ExtendEntry& entry : job->shape().entries) sequences.push_back(entry.sequence);
  job->cache().turns().Join(sequences, &job->place(), [&environment, job](absl::StatusOr<SequenceTurns::Turn> turn) {
    if (!turn.ok()) {
      Refuse(environment, job, turn.status());
    } else if (job->state() != Job::State::kDone) {
      Begin(environment, job, *std::move(turn), kMostSpills);
    }
  });
  // Who ended it before it had joined could not take it out.
  if (job->state() == Job::State::kDone) Forget(environment, *job);
}

void Forget(const SequenceEnvironment& environment, const ExtendJob& job) {
  environment.attend.scheduler->Forget(job);
  job.cache().turns().Leave(job.place());
}

}  // namespace tessera
