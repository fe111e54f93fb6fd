// Random operations on the cache, on a naive model of it, and on a memory that the cache's steps are carried out in:
// answers, page counts and every row that is read are the model's; no step meets another tenant's rows.
//
// TESSERA_CACHE_OPERATIONS: how many operations.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/cache/naive_cache.h"
#include "server/cache/sequence_cache.h"
#include "server/clock/fake_clock.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

constexpr size_t kTenants = 3;
constexpr NaiveLimits kLimits = {.layers = 3,
                                 .page_tokens = 4,
                                 .max_tokens = 60,
                                 .max_sequences = 20,
                                 .pages = {32, 24},
                                 .tenant_pages = {24, 14},
                                 .tenant_sequences = 10,
                                 .lease = absl::Seconds(60)};

SequenceCacheOptions Options() {
  return {.layers = kLimits.layers,
          .page_tokens = kLimits.page_tokens,
          .device_pages = static_cast<int32_t>(kLimits.pages[0]),
          .host_pages = static_cast<int32_t>(kLimits.pages[1]),
          .max_sequences = kLimits.max_sequences,
          .max_tokens = kLimits.max_tokens,
          .lease = kLimits.lease,
          .quota = {kLimits.tenant_sequences, kLimits.tenant_pages[0], kLimits.tenant_pages[1]}};
}

// A row's value says whose it is; 0 is nobody's.
constexpr int64_t kValuesPerTenant = int64_t{1} << 40;
size_t TenantOf(int64_t value) { return static_cast<size_t>(value / kValuesPerTenant) - 1; }

// Rows of all pages: [pages, layers, page_tokens].
class PagedRows {
 public:
  explicit PagedRows(int64_t pages) : rows_(pages * kRowsPerPage) {}

  int64_t& at(int32_t page, int64_t layer, int64_t token) {
    return rows_[(page * kLimits.layers + layer) * kLimits.page_tokens + token];
  }
  int64_t* page(int32_t page) { return &at(page, 0, 0); }

  static constexpr int64_t kRowsPerPage = kLimits.layers * kLimits.page_tokens;

 private:
  std::vector<int64_t> rows_;
};

class World {
 public:
  explicit World(uint64_t seed)
      : random_(seed),
        cache_(Options(), &clock_),
        model_(kLimits, kTenants),
        device_(kLimits.pages[0]),
        host_(kLimits.pages[1]) {}

  void DoSomething() {
    const uint64_t choice = random_() % 100;
    if (choice < 12) return Create();
    if (choice < 20) return Fork();
    if (choice < 28) return Truncate();
    if (choice < 32) return Release();
    if (choice < 36) return Get();
    if (choice < 40) return Pass();
    if (choice < 44) return Spill();
    if (choice < 74) return Reserve();
    EndStep();
  }

  void CheckCounts() {
    const CacheCounts counts = cache_.counts();
    ASSERT_EQ(counts.device.total - counts.device.free, model_.used(Place::kDevice));
    ASSERT_EQ(counts.host.total - counts.host.free, model_.used(Place::kHost));
    ASSERT_EQ(counts.sequences, model_.sequences());
    ASSERT_EQ(counts.steps, static_cast<int64_t>(steps_.size()));
  }

  void CheckInvariants() { ASSERT_EQ(cache_.CheckInvariants(), absl::OkStatus()); }

  void LetEverythingGo() {
    while (!steps_.empty()) EndStep();
    clock_.Advance(kLimits.lease);
    while (cache_.Expire(3) > 0) continue;
    const CacheCounts counts = cache_.counts();
    EXPECT_EQ(counts.device.free, counts.device.total);
    EXPECT_EQ(counts.host.free, counts.host.total);
    EXPECT_EQ(counts.sequences, 0);
    CheckInvariants();
  }

  int64_t reserved() const { return reserved_; }
  int64_t exhausted() const { return exhausted_; }
  int64_t aborted() const { return aborted_; }
  int64_t spilled() const { return spilled_; }
  int64_t returned() const { return returned_; }
  int64_t copied() const { return copied_; }

 private:
  struct Known {
    SequenceHandle handle;
    NaiveSequencePtr sequence;
  };
  struct Step {
    CacheStep step;
    NaiveStepPtr model;
    size_t tenant;
    bool done;  // what it asks for has been done: it may be committed
  };

  std::string Name(size_t tenant) const { return absl::StrCat("tenant ", tenant); }
  size_t Below(size_t n) { return random_() % n; }
  bool Once(int in) { return Below(in) == 0; }

  // Mostly a sequence that is there, sometimes one that has been, or another tenant's handle.
  const Known& Any() { return known_[Below(known_.size())]; }
  size_t AnyTenantFor(const Known& known) { return Once(30) ? Below(kTenants) : known.sequence->tenant; }

  void Add(const SequenceHandle& handle, const NaiveSequencePtr& sequence) {
    constexpr size_t kRemembered = 26;  // a little more than can be there, so that some are stale
    if (known_.size() < kRemembered) {
      known_.push_back({handle, sequence});
      return;
    }
    for (Known& old : known_) {
      if (!old.sequence->released) continue;
      old = {handle, sequence};
      return;
    }
    FAIL() << "more live sequences than can be";
  }

  void Create() {
    const size_t tenant = Below(kTenants);
    const int64_t count = static_cast<int64_t>(Below(4));
    std::vector<NaiveSequencePtr> expected;
    const absl::StatusCode code = model_.Create(tenant, count, clock_.Now(), &expected);
    const auto created = cache_.Create(Name(tenant), count);
    ASSERT_EQ(created.status().code(), code);
    if (!created.ok()) return;
    ASSERT_EQ(created->size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) Add((*created)[i], expected[i]);
  }

  void Fork() {
    if (known_.empty()) return;
    const Known source = Any();
    const size_t tenant = AnyTenantFor(source);
    std::optional<int64_t> length;
    if (Once(2)) length = static_cast<int64_t>(Below(source.sequence->longest() + 2)) - Once(20);
    NaiveSequencePtr expected;
    const absl::StatusCode code = model_.Fork(tenant, source.sequence, length, clock_.Now(), &expected);
    const auto fork = cache_.Fork(Name(tenant), source.handle, length);
    ASSERT_EQ(fork.status().code(), code) << fork.status();
    if (fork.ok()) Add(*fork, expected);
  }

  void Truncate() {
    if (known_.empty()) return;
    const Known known = Any();
    const size_t tenant = AnyTenantFor(known);
    const int64_t length = static_cast<int64_t>(Below(known.sequence->longest() + 2)) - Once(20);
    const absl::StatusCode code = model_.Truncate(tenant, known.sequence, length, clock_.Now());
    ASSERT_EQ(cache_.Truncate(Name(tenant), known.handle, length).code(), code);
  }

  void Release() {
    if (known_.empty()) return;
    const Known known = Any();
    const size_t tenant = AnyTenantFor(known);
    ASSERT_EQ(cache_.Release(Name(tenant), known.handle).code(), model_.Release(tenant, known.sequence, clock_.Now()));
  }

  void Get() {
    if (known_.empty()) return;
    const Known known = Any();
    const size_t tenant = AnyTenantFor(known);
    SequenceHandle wrong = known.handle;
    const uint64_t bit = uint64_t{1} << Below(32);
    uint64_t* const words[] = {&wrong.epoch, &wrong.secret};
    if (Once(2)) {
      *words[Below(2)] ^= bit;
    } else {
      (Once(2) ? wrong.slot : wrong.generation) ^= static_cast<uint32_t>(bit);
    }
    ASSERT_EQ(cache_.Get(Name(tenant), wrong).status().code(), absl::StatusCode::kNotFound);

    const absl::StatusCode code = model_.Get(tenant, known.sequence, clock_.Now());
    const auto info = cache_.Get(Name(tenant), known.handle);
    ASSERT_EQ(info.status().code(), code);
    if (!info.ok()) return;
    for (int layer = 0; layer < kLimits.layers; ++layer) {
      ASSERT_EQ(info->lengths[layer], static_cast<int64_t>(known.sequence->rows[layer].size()));
    }
    const auto& pages = known.sequence->pages;
    const int64_t on_host = std::count_if(pages.begin(), pages.end(), [](const auto& page) { return page->on_host(); });
    ASSERT_EQ(info->host_pages, on_host);
    ASSERT_EQ(info->device_pages, static_cast<int64_t>(pages.size()) - on_host);
  }

  void Pass() {
    clock_.Advance(absl::Seconds(Below(12)));
    const int64_t most = static_cast<int64_t>(Below(4));
    ASSERT_EQ(cache_.Expire(most), model_.Expire(most, clock_.Now()));
  }

  void Reserve() {
    if (known_.empty()) return;
    const size_t tenant = AnyTenantFor(Any());
    std::vector<StepEntry> entries;
    std::vector<NaiveEntry> expected_entries;
    for (size_t i = 0, count = 1 + Below(5); i < count; ++i) {
      const Known known = Any();
      if (known.sequence->tenant != tenant && !Once(40)) continue;
      const int layer = static_cast<int>(Below(kLimits.layers)) + (Once(200) ? 3 : 0);
      std::vector<int64_t> rows(Once(4) ? 0 : Once(3) ? Below(25) : 1);
      for (int64_t& row : rows) row = static_cast<int64_t>(tenant + 1) * kValuesPerTenant + ++values_;
      entries.push_back({known.handle, layer, static_cast<int64_t>(rows.size())});
      expected_entries.push_back({known.sequence, layer, std::move(rows)});
    }
    NaiveStepPtr model;
    int64_t expected_missing = 0;
    const absl::StatusCode code = model_.Reserve(tenant, expected_entries, clock_.Now(), &model, &expected_missing);
    int64_t missing = -1;
    auto step = cache_.Reserve(Name(tenant), entries, &missing);
    ASSERT_EQ(step.status().code(), code) << step.status();
    ASSERT_EQ(missing, expected_missing);
    exhausted_ += code == absl::StatusCode::kResourceExhausted;
    aborted_ += code == absl::StatusCode::kAborted;
    if (!step.ok()) return;
    ++reserved_;
    ASSERT_EQ(step->size(), expected_entries.size());
    steps_.push_back(std::make_unique<Step>(Step{*std::move(step), std::move(model), tenant, !Once(10)}));
    if (steps_.back()->done) CarryOut(*steps_.back());
  }

  void Spill() {
    const int64_t pages = static_cast<int64_t>(Below(8));
    NaiveStepPtr model = model_.Spill(pages);
    auto step = cache_.Spill(pages);
    ASSERT_EQ(step.has_value(), model != nullptr);
    if (!step.has_value()) return;
    size_t moved = 0;
    for (const auto& [sequence, fresh] : model->fresh) moved += fresh.size();
    ASSERT_EQ(step->copies().size(), moved);
    spilled_ += static_cast<int64_t>(moved);
    steps_.push_back(std::make_unique<Step>(Step{*std::move(step), std::move(model), 0, /*done=*/true}));
    Prepare(*steps_.back());
  }

  // What a step asks for before anything is appended.
  void Prepare(const Step& step) {
    for (PageRef page : step.step.scrubs()) {
      std::fill_n(Memory(page).page(page.number()), PagedRows::kRowsPerPage, 0);
    }
    for (const PageCopy& copy : step.step.copies()) {
      returned_ += copy.from.place() == Place::kHost;
      copied_ += copy.from.place() == copy.to.place();
      for (int layer = 0; layer < kLimits.layers; ++layer) {
        for (int64_t token = 0; token < copy.tokens; ++token) {
          Memory(copy.to).at(copy.to.number(), layer, token) = Memory(copy.from).at(copy.from.number(), layer, token);
        }
      }
    }
  }

  void CarryOut(const Step& step) {
    Prepare(step);
    for (size_t i = 0; i < step.step.size(); ++i) {
      const EntryPages entry = step.step.entry(i);
      const NaiveEntry& use = step.model->uses[i];
      for (int32_t page : entry.pages) {
        for (int64_t row = 0; row < PagedRows::kRowsPerPage; ++row) {
          const int64_t value = device_.page(page)[row];
          ASSERT_TRUE(value == 0 || TenantOf(value) == step.tenant) << "another tenant's row is within reach";
        }
      }
      for (size_t n = 0; n < use.rows.size(); ++n) {
        Row(entry, use.layer, entry.length_before + static_cast<int64_t>(n)) = use.rows[n];
      }
    }
    CheckRows(step);
  }

  void CheckRows(const Step& step) {
    for (size_t i = 0; i < step.step.size(); ++i) {
      const EntryPages entry = step.step.entry(i);
      const NaiveEntry& use = step.model->uses[i];
      const auto& before = use.sequence->rows[use.layer];
      ASSERT_EQ(entry.length, entry.length_before + static_cast<int64_t>(use.rows.size()));
      ASSERT_LE(entry.length_before, static_cast<int64_t>(before.size()));
      for (int64_t token = 0; token < entry.length; ++token) {
        const bool appended = token >= entry.length_before;
        ASSERT_EQ(Row(entry, use.layer, token), appended ? use.rows[token - entry.length_before] : before[token]);
      }
    }
  }

  void EndStep() {
    if (steps_.empty()) return;
    std::swap(steps_[Below(steps_.size())], steps_.back());
    const std::unique_ptr<Step> step = std::move(steps_.back());
    steps_.pop_back();
    if (step->done) CheckRows(*step);
    const bool commit = step->done && !Once(8);
    if (commit) step->step.Commit();
    model_.End(std::move(step->model), commit, clock_.Now());
  }  // without a commit, the step is rolled back here

  PagedRows& Memory(PageRef page) { return page.place() == Place::kDevice ? device_ : host_; }
  int64_t& Row(const EntryPages& entry, int layer, int64_t token) {
    return device_.at(entry.pages[token / kLimits.page_tokens], layer, token % kLimits.page_tokens);
  }

  std::mt19937_64 random_;
  FakeClock clock_;
  SequenceCache cache_;
  NaiveCache model_;
  PagedRows device_, host_;
  std::vector<Known> known_;
  std::vector<std::unique_ptr<Step>> steps_;
  int64_t values_ = 0;
  int64_t reserved_ = 0, exhausted_ = 0, aborted_ = 0, spilled_ = 0, returned_ = 0, copied_ = 0;
};

TEST(CachePropertyTest, AgreesWithTheNaiveModel) {
  const char* const chosen = std::getenv("TESSERA_CACHE_OPERATIONS");
  const int64_t operations = chosen != nullptr ? std::strtoll(chosen, nullptr, 10) : 1000000;
  constexpr int64_t kBetweenChecks = 16;
  World world(RandomSeed());
  for (int64_t i = 0; i < operations; ++i) {
    world.DoSomething();
    world.CheckCounts();
    if (i % kBetweenChecks == 0) world.CheckInvariants();
    ASSERT_FALSE(HasFatalFailure()) << "operation " << i;
  }
  // That the run has been where it is hard.
  const std::pair<const char*, int64_t> visited[] = {
      {"reserved", world.reserved()}, {"exhausted", world.exhausted()}, {"aborted", world.aborted()},
      {"spilled", world.spilled()},   {"returned", world.returned()},   {"copied on write", world.copied()}};
  for (const auto& [what, times] : visited) {
    std::printf("%s: %.2f%%\n", what, 100.0 * static_cast<double>(times) / static_cast<double>(operations));
    EXPECT_GT(times, operations / 1000) << what;
  }
  world.LetEverythingGo();
}

}  // namespace
}  // namespace tessera
