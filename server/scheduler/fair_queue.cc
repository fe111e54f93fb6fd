#include "server/scheduler/fair_queue.h"

#include <algorithm>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

absl::Status Full(absl::string_view what, int64_t limit, absl::string_view unit) {
  return absl::ResourceExhaustedError(absl::StrCat(what, " is full: the limit is ", limit, " ", unit));
}

}  // namespace

FairQueue::~FairQueue() { ABSL_RAW_CHECK(empty(), "a queue is emptied before it goes"); }

absl::Status FairQueue::Push(JobPtr job, absl::Time now) {
  const Job::Traits& traits = job->traits();
  const bool expected = job->place_.expected;
  if (!expected) {
    if (absl::Status status = CheckBounds(traits); !status.ok()) return status;
  }
  if (!job->Advance(Job::State::kCreated, Job::State::kQueued)) {
    if (expected) ExpectNoMore(*job);
    return absl::CancelledError("the call ended before it was queued");
  }
  Flow* const flow = FlowFor(traits);
  if (expected) ExpectNoMore(*job);  // the tenant stays, for it has a flow now
  Lane* const lane = LaneFor(flow, SizeOf(*job), traits.key);

  all_.PushBack(job.get());
  lane->side->jobs.PushBack(job.get());
  lane->jobs.PushBack(job.get());
  if (traits.deadline != absl::InfiniteFuture()) deadlines_.emplace(traits.deadline, job.get());

  ++flow->tenant->jobs;
  flow->tenant->bytes += traits.bytes;
  ++jobs_;
  bytes_ += traits.bytes;
  tokens_ += traits.tokens;
  sequences_ += traits.sequences;
  cost_ += static_cast<double>(traits.cost);

  Job::Place& place = job->place_;
  place.lane = lane;
  place.arrival = ++arrivals_;
  place.queued = now;
  place.self = std::move(job);
  return absl::OkStatus();
}

absl::Status FairQueue::Expect(const Job& job) {
  const Job::Traits& traits = job.traits();
  if (absl::Status status = CheckBounds(traits); !status.ok()) return status;
  Tenant* const tenant = TenantNamed(traits.tenant);
  ++tenant->jobs;
  tenant->bytes += traits.bytes;
  ++expected_jobs_;
  expected_bytes_ += traits.bytes;
  job.place_.expected_cost = static_cast<double>(traits.cost);
  expected_cost_ += job.place_.expected_cost;
  job.place_.expected = true;
  return absl::OkStatus();
}

void FairQueue::ExpectNoMore(const Job& job) {
  const Job::Traits& traits = job.traits();
  Tenant* const tenant = TenantNamed(traits.tenant);
  --tenant->jobs;
  tenant->bytes -= traits.bytes;
  --expected_jobs_;
  expected_bytes_ -= traits.bytes;
  expected_cost_ = expected_jobs_ == 0 ? 0 : expected_cost_ - job.place_.expected_cost;  // no rounding is left
  job.place_.expected = false;
  DropIfGone(tenant);
}

JobPtr FairQueue::Remove(const Job& job) {
  if (job.place_.expected) ExpectNoMore(job);
  JobPtr self = job.place_.self;
  if (self == nullptr) return nullptr;
  const Job::Traits& traits = self->traits();
  Lane* const lane = static_cast<Lane*>(self->place_.lane);
  Side* const side = lane->side;
  Flow* const flow = side->flow;
  Level& level = LevelOf(*flow);

  all_.Remove(self.get());
  side->jobs.Remove(self.get());
  lane->jobs.Remove(self.get());
  if (traits.deadline != absl::InfiniteFuture()) deadlines_.erase({traits.deadline, self.get()});

  --flow->tenant->jobs;
  flow->tenant->bytes -= traits.bytes;
  --jobs_;
  bytes_ -= traits.bytes;
  tokens_ -= traits.tokens;
  sequences_ -= traits.sequences;
  cost_ = jobs_ == 0 ? 0 : cost_ - static_cast<double>(traits.cost);

  if (lane->jobs.empty()) {
    const auto lanes = level.lanes[side->size].find(traits.key);
    lanes->second.Erase(lane);
    if (lanes->second.empty()) level.lanes[side->size].erase(lanes);
    side->lanes.erase(traits.key);
  }
  if (side->jobs.empty()) level.sides[side->size].Erase(side);
  if (flow->empty()) Settle(flow);
  self->place_ = {};
  return self;
}

FairQueue::Batch FairQueue::Take(const BatchLimits& limits, absl::Time now, bool small_first) {
  Batch batch;
  Size size = kSmall;
  while (batch.jobs.empty()) {
    Side* const side = Leader(small_first);
    if (side == nullptr) return batch;
    size = side->size;
    EnterRound(LevelOf(*side->flow), side->flow->turn.round);
    Claim(side->jobs.front(), now, &batch);
  }
  batch.large = size == kLarge;
  const BatchKey key = batch.jobs.front()->traits().key;
  for (int priority = kJobPriorities - 1; priority >= 0; --priority) {
    while (Lane* const lane = RiderLane(levels_[priority], size, key)) {
      Job* const job = lane->jobs.front();
      const Job::Traits& traits = job->traits();
      const bool fits = static_cast<int64_t>(batch.jobs.size()) < limits.jobs &&
                        traits.tokens <= limits.tokens - batch.tokens && traits.cost <= limits.cost - batch.cost &&
                        traits.sequences <= limits.sequences - batch.sequences;
      if (!fits) return batch;
      Claim(job, now, &batch);
    }
  }
  return batch;
}

std::vector<JobPtr> FairQueue::TakeExpired(absl::Time now, size_t most) {
  std::vector<JobPtr> expired;
  while (expired.size() < most && next_deadline() <= now) expired.push_back(Remove(*deadlines_.begin()->second));
  return expired;
}

std::vector<JobPtr> FairQueue::TakeAll() {
  std::vector<JobPtr> jobs;
  jobs.reserve(static_cast<size_t>(jobs_));
  while (!empty()) jobs.push_back(Remove(*all_.front()));
  return jobs;
}

absl::Time FairQueue::next_deadline() const {
  return deadlines_.empty() ? absl::InfiniteFuture() : deadlines_.begin()->first;
}

absl::Status FairQueue::CheckBounds(const Job::Traits& traits) const {
  const int64_t tenant_jobs = TenantShare(options_.max_jobs);
  const int64_t tenant_bytes = TenantShare(options_.max_bytes);
  if (traits.bytes > tenant_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the call takes ", traits.bytes, " bytes of a queue whose limit is ", tenant_bytes));
  }
  if (jobs_ + expected_jobs_ >= options_.max_jobs) return Full("the queue", options_.max_jobs, "calls");
  if (traits.bytes > options_.max_bytes - bytes_ - expected_bytes_)
    return Full("the queue", options_.max_bytes, "bytes");
  const auto tenant = tenants_.find(traits.tenant);
  if (tenant == tenants_.end()) return absl::OkStatus();
  if (tenant->second->jobs >= tenant_jobs) return Full("the tenant's share of the queue", tenant_jobs, "calls");
  if (traits.bytes > tenant_bytes - tenant->second->bytes) {
    return Full("the tenant's share of the queue", tenant_bytes, "bytes");
  }
  return absl::OkStatus();
}

int64_t FairQueue::TenantShare(int64_t bound) const {
  if (options_.max_tenant_share >= 1) return bound;
  return std::max<int64_t>(static_cast<int64_t>(options_.max_tenant_share * static_cast<double>(bound)), 1);
}

FairQueue::Tenant* FairQueue::TenantNamed(const std::string& name) {
  std::unique_ptr<Tenant>& tenant = tenants_[name];
  if (tenant == nullptr) {
    tenant = std::make_unique<Tenant>();
    tenant->name = name;
  }
  return tenant.get();
}

FairQueue::Flow* FairQueue::FlowFor(const Job::Traits& traits) {
  Tenant* const tenant = TenantNamed(traits.tenant);
  const auto priority = static_cast<int>(traits.priority);
  Level& level = levels_[priority];
  std::unique_ptr<Flow>& flow = tenant->flows[priority];
  if (flow == nullptr) {
    flow = std::make_unique<Flow>();
    flow->tenant = tenant;
    flow->priority = priority;
    flow->turn = {level.round, ++turns_};
    flow->balance = options_.quantum;
    for (const Size size : {kSmall, kLarge}) {
      flow->sides[size].flow = flow.get();
      flow->sides[size].size = size;
    }
    ++flows_;
  } else if (flow->empty()) {
    level.settling.erase(flow->turn);
  }
  return flow.get();
}

FairQueue::Lane* FairQueue::LaneFor(Flow* flow, Size size, const BatchKey& key) {
  Level& level = LevelOf(*flow);
  Side& side = flow->sides[size];
  if (side.jobs.empty()) level.sides[size].Insert(&side);
  std::unique_ptr<Lane>& lane = side.lanes[key];
  if (lane == nullptr) {
    lane = std::make_unique<Lane>();
    lane->side = &side;
    lane->key = key;
    level.lanes[size][key].Insert(lane.get());
  }
  return lane.get();
}

FairQueue::Side* FairQueue::Leader(bool small_first) {
  if (small_first) {
    for (int priority = kJobPriorities - 1; priority >= 0; --priority) {
      if (Side* const small = levels_[priority].sides[kSmall].First()) return small;
    }
  }
  for (int priority = kJobPriorities - 1; priority >= 0; --priority) {
    Side* const small = levels_[priority].sides[kSmall].First();
    Side* const large = levels_[priority].sides[kLarge].First();
    if (small == nullptr && large == nullptr) continue;
    if (small == nullptr) return large;
    if (large == nullptr) return small;
    if (small->flow != large->flow) return small->turn() < large->turn() ? small : large;
    return small->jobs.front()->place_.arrival < large->jobs.front()->place_.arrival ? small : large;
  }
  return nullptr;
}

FairQueue::Lane* FairQueue::RiderLane(Level& level, Size size, const BatchKey& key) {
  const auto lanes = level.lanes[size].find(key);
  return lanes == level.lanes[size].end() ? nullptr : lanes->second.First();
}

bool FairQueue::Claim(Job* job, absl::Time now, Batch* batch) {
  const Job::Traits& traits = job->traits();
  if (traits.deadline <= now) {
    batch->expired.push_back(Remove(*job));
    return false;
  }
  if (!job->Advance(Job::State::kQueued, Job::State::kBatched)) {
    batch->ended.push_back(Remove(*job));
    return false;
  }
  Charge(static_cast<Lane*>(job->place_.lane)->side->flow, traits.cost);
  batch->tokens += traits.tokens;
  batch->sequences += traits.sequences;
  batch->cost += traits.cost;
  batch->jobs.push_back(Remove(*job));
  return true;
}

void FairQueue::Charge(Flow* flow, int64_t cost) {
  flow->balance -= cost;
  if (flow->balance > 0) return;
  const int64_t rounds = -flow->balance / options_.quantum + 1;
  flow->balance += rounds * options_.quantum;
  flow->turn = {flow->turn.round + static_cast<uint64_t>(rounds), ++turns_};
}

void FairQueue::EnterRound(Level& level, uint64_t round) {
  level.round = std::max(level.round, round);
  while (!level.settling.empty() && level.settling.begin()->first.round < level.round) {
    Drop(level.settling.begin()->second);
  }
}

void FairQueue::Settle(Flow* flow) {
  Level& level = LevelOf(*flow);
  level.settling.emplace(flow->turn, flow);
  // With nobody else waiting there is nobody to be fair to: all accounts are closed.
  while (!level.settling.empty() && (level.idle() || level.settling.size() > kMaxSettling)) {
    Drop(level.settling.begin()->second);
  }
}

void FairQueue::Drop(Flow* flow) {
  LevelOf(*flow).settling.erase(flow->turn);
  Tenant* const tenant = flow->tenant;
  tenant->flows[flow->priority].reset();
  --flows_;
  DropIfGone(tenant);
}

void FairQueue::DropIfGone(Tenant* tenant) {
  const auto none = [](const std::unique_ptr<Flow>& left) { return left == nullptr; };
  if (tenant->jobs == 0 && std::all_of(tenant->flows.begin(), tenant->flows.end(), none)) {
    tenants_.erase(tenants_.find(tenant->name));
  }
}

}  // namespace tessera
