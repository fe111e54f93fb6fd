// The waiting room: a bounded queue that knows whose turn it is and who may share a batch.
//
// Order of service: by priority; within a priority tenants take turns by deficit round robin over cost; within a tenant
// by arrival. Jobs are of two sizes, small and large (cost >= large_cost), which never share a batch, so that no small
// job waits for a large one that rides with it.
//
// Deficit round robin with batches: every tenant may spend `quantum` in each round. A job that rides in another
// tenant's batch is charged to its own tenant, who may so spend more than it has; it then sits out the rounds that pay
// its debt. In place of a ring that is walked until a debt is paid, a tenant carries the round in which its turn comes,
// and the lowest round is served first. A tenant that leaves keeps its account until the others have come to its round
// (at most kMaxSettling such accounts), or else one job at a time would always be a newcomer's first.
//
// Invariants: every waiting job is in the whole-queue list, in its side's list (tenant, priority, size) and in its
// lane's list (tenant, priority, size, key), and among the deadlines if it has one; no side, lane or lane index in a
// level is empty; a flow without jobs is among its level's settling ones; a tenant has a flow or is of a job that is
// expected.
#ifndef TESSERA_SERVER_SCHEDULER_FAIR_QUEUE_H_
#define TESSERA_SERVER_SCHEDULER_FAIR_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/scheduler/job.h"
#include "server/scheduler/job_list.h"
#include "server/scheduler/turn_queue.h"

namespace tessera {

// Not thread-safe. Never finishes a job, and returns every job that it lets go, so that the caller can end and free
// them with no lock held. Push, Remove: O(log waiting); Take: O(batch * log waiting), whatever else waits.
class FairQueue {
 public:
  struct Options {
    int64_t max_jobs;
    int64_t max_bytes;
    double max_tenant_share;  // of either bound that one tenant may fill
    int64_t large_cost;
    int64_t quantum;  // cost
  };

  struct BatchLimits {
    int64_t jobs;
    int64_t tokens;
    int64_t cost;
    int64_t sequences = std::numeric_limits<int64_t>::max();
  };

  struct Batch {
    std::vector<JobPtr> jobs;     // equal keys, moved to kBatched
    std::vector<JobPtr> expired;  // met on the way, their deadline past; to be finished
    std::vector<JobPtr> ended;    // met on the way, ended by someone else; to be let go
    int64_t tokens = 0;
    int64_t cost = 0;
    int64_t sequences = 0;
    bool large = false;
  };

  // Accounts kept for tenants with no job waiting.
  static constexpr size_t kMaxSettling = 1024;

  explicit FairQueue(const Options& options) : options_(options) {}
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;
  // REQUIRES: empty.
  ~FairQueue();

  // Takes the job in (kCreated -> kQueued). RESOURCE_EXHAUSTED where the queue, or the tenant's share of it, is full;
  // INVALID_ARGUMENT where the job could never wait here; CANCELLED where it has ended.
  absl::Status Push(JobPtr job, absl::Time now);

  // Keeps room for a job that will come later: it counts against the bounds, and nowhere else, until Push, which then
  // does not refuse it for want of room, or Remove. Fails as Push does. REQUIRES: the job has not come yet; it lives
  // until then.
  absl::Status Expect(const Job& job);

  // Takes out a job; null where it is not waiting. One that was expected is so no more.
  JobPtr Remove(const Job& job);

  // The job whose turn it is, whatever its size, and then those of equal key and size in the order of service, until
  // one does not fit within `limits`. With `small_first`, a small job leads if one waits.
  Batch Take(const BatchLimits& limits, absl::Time now, bool small_first);

  // Takes out up to `most` jobs whose deadline has come, earliest first.
  std::vector<JobPtr> TakeExpired(absl::Time now, size_t most);
  // Takes out everything.
  std::vector<JobPtr> TakeAll();

  bool empty() const { return jobs_ == 0; }
  // Sums over the waiting jobs.
  int64_t jobs() const { return jobs_; }
  int64_t bytes() const { return bytes_; }
  int64_t tokens() const { return tokens_; }
  int64_t sequences() const { return sequences_; }
  double cost() const { return cost_; }
  // Of the jobs that are expected.
  int64_t expected_jobs() const { return expected_jobs_; }
  int64_t expected_bytes() const { return expected_bytes_; }
  double expected_cost() const { return expected_cost_; }
  // When the job that has waited longest came. REQUIRES: not empty.
  absl::Time oldest() const { return all_.front()->place_.queued; }
  // InfiniteFuture where no job has a deadline.
  absl::Time next_deadline() const;
  // Accounts held, for jobs waiting or not: what the queue's own memory grows with.
  size_t flows() const { return flows_; }

 private:
  enum Size : uint8_t { kSmall, kLarge };
  static constexpr int kSizes = 2;

  struct Flow;
  struct Side;
  struct Tenant;

  // A flow's jobs of one size and key.
  struct Lane {
    Side* side;
    BatchKey key;
    Turn placed;
    JobList<kLaneList> jobs;

    Turn turn() const { return side->flow->turn; }
  };

  // A flow's jobs of one size.
  struct Side {
    Flow* flow = nullptr;
    Size size = kSmall;
    Turn placed;
    JobList<kSideList> jobs;
    absl::flat_hash_map<BatchKey, std::unique_ptr<Lane>> lanes;

    Turn turn() const { return flow->turn; }
  };

  // A tenant at one priority: its account and its jobs.
  struct Flow {
    Tenant* tenant;
    int priority;
    Turn turn;
    int64_t balance;  // what it may still spend in its round, > 0
    std::array<Side, kSizes> sides;

    bool empty() const { return sides[kSmall].jobs.empty() && sides[kLarge].jobs.empty(); }
  };

  struct Tenant {
    std::string name;
    int64_t jobs = 0;   // waiting or expected
    int64_t bytes = 0;  // theirs
    std::array<std::unique_ptr<Flow>, kJobPriorities> flows;
  };

  // One priority.
  struct Level {
    uint64_t round = 0;  // of the flow that led last: newcomers join here
    std::array<TurnQueue<Side>, kSizes> sides;
    std::array<absl::flat_hash_map<BatchKey, TurnQueue<Lane>>, kSizes> lanes;
    absl::btree_map<Turn, Flow*> settling;

    bool idle() const { return sides[kSmall].empty() && sides[kLarge].empty(); }
  };

  Size SizeOf(const Job& job) const { return job.traits().cost >= options_.large_cost ? kLarge : kSmall; }
  Level& LevelOf(const Flow& flow) { return levels_[flow.priority]; }

  absl::Status CheckBounds(const Job::Traits& traits) const;
  int64_t TenantShare(int64_t bound) const;
  Tenant* TenantNamed(const std::string& name);
  void ExpectNoMore(const Job& job);
  Flow* FlowFor(const Job::Traits& traits);
  Lane* LaneFor(Flow* flow, Size size, const BatchKey& key);

  // The side whose job leads next, or null where nothing waits.
  Side* Leader(bool small_first);
  // The first lane in turn of those whose jobs may ride, or null.
  Lane* RiderLane(Level& level, Size size, const BatchKey& key);
  // Takes out `job`: into batch->jobs and its tenant charged, or aside where it has expired or ended. Returns whether
  // it is in the batch.
  bool Claim(Job* job, absl::Time now, Batch* batch);

  void Charge(Flow* flow, int64_t cost);
  void EnterRound(Level& level, uint64_t round);
  void Settle(Flow* flow);
  void Drop(Flow* flow);
  // Forgets a tenant of whom nothing is left.
  void DropIfGone(Tenant* tenant);

  const Options options_;
  int64_t jobs_ = 0;
  int64_t bytes_ = 0;
  int64_t tokens_ = 0;
  int64_t sequences_ = 0;
  double cost_ = 0;
  int64_t expected_jobs_ = 0;
  int64_t expected_bytes_ = 0;
  double expected_cost_ = 0;
  size_t flows_ = 0;
  uint64_t arrivals_ = 0;
  uint64_t turns_ = 0;
  JobList<kWholeQueue> all_;
  absl::btree_set<std::pair<absl::Time, Job*>> deadlines_;
  absl::flat_hash_map<std::string, std::unique_ptr<Tenant>> tenants_;
  std::array<Level, kJobPriorities> levels_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_SCHEDULER_FAIR_QUEUE_H_
