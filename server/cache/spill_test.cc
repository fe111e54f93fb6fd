// Pages to the host and back.
#include <optional>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/cache/sequence_cache.h"
#include "server/clock/fake_clock.h"

namespace tessera {
namespace {

using ::testing::SizeIs;

class SpillTest : public ::testing::Test {
 protected:
  SequenceHandle Filled(int64_t tokens, absl::string_view tenant = "a") {
    const SequenceHandle handle = cache_.Create(tenant, 1)->front();
    Use(handle, tokens, tenant);
    clock_.Advance(absl::Seconds(1));
    return handle;
  }
  void Use(const SequenceHandle& handle, int64_t tokens, absl::string_view tenant = "a") {
    auto step = cache_.Reserve(tenant, {{handle, 0, tokens}});
    ASSERT_TRUE(step.ok()) << step.status();
    step->Commit();
  }
  SequenceInfo Info(const SequenceHandle& handle) { return *cache_.Get("a", handle); }

  void TearDown() override { EXPECT_EQ(cache_.CheckInvariants(), absl::OkStatus()); }

  FakeClock clock_;
  SequenceCache cache_{{.layers = 1,
                        .page_tokens = 4,
                        .device_pages = 8,
                        .host_pages = 5,
                        .max_sequences = 10,
                        .max_tokens = 100,
                        .lease = absl::Seconds(60),
                        .quotas = {{"b", {.host_pages = 1}}}},
                       &clock_};
};

TEST_F(SpillTest, TheLongestIdleGoFirstAndComeBackWithTheirNextUse) {
  const SequenceHandle oldest = Filled(7);
  const SequenceHandle middle = Filled(8);
  const SequenceHandle newest = Filled(16);
  int64_t missing = 0;
  ASSERT_EQ(cache_.Reserve("a", {{newest, 0, 9}}, &missing).status().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_EQ(missing, 3);

  cache_.Spill(missing).reset();  // rolled back
  std::optional<CacheStep> spill = cache_.Spill(missing);
  ASSERT_TRUE(spill.has_value());
  ASSERT_THAT(spill->copies(), SizeIs(3));
  EXPECT_EQ(spill->copies()[0].tokens, 4);
  EXPECT_EQ(spill->copies()[1].tokens, 3) << "no more than the sequence has";
  EXPECT_EQ(cache_.counts().device.free, 0) << "until the copies are made";
  spill->Commit();
  EXPECT_EQ(cache_.counts().device.free, 3);
  EXPECT_EQ(cache_.counts().host.free, 2);
  EXPECT_EQ(cache_.counts().pages_to_host, 3);
  EXPECT_EQ(Info(oldest).host_pages, 2);
  EXPECT_EQ(Info(middle).host_pages, 1) << "as many as were wanted";
  Use(newest, 9);

  ASSERT_TRUE(cache_.Truncate("a", newest, 8).ok());
  auto step = cache_.Reserve("a", {{oldest, 0, 1}});
  ASSERT_TRUE(step.ok()) << step.status();
  ASSERT_THAT(step->copies(), SizeIs(2));
  EXPECT_EQ(step->copies()[0].from.place(), Place::kHost);
  EXPECT_EQ(step->copies()[0].to, PageRef(Place::kDevice, step->entry(0).pages[0]));
  step->Commit();
  EXPECT_EQ(Info(oldest).host_pages, 0);
  EXPECT_EQ(cache_.counts().host.free, 4);
  EXPECT_EQ(cache_.counts().pages_to_host, 3);
  EXPECT_EQ(cache_.counts().pages_from_host, 2);
}

TEST_F(SpillTest, ASpilledSequenceKeepsItsLease) {
  const SequenceHandle handle = Filled(4);
  clock_.Advance(absl::Seconds(58));
  cache_.Spill(1)->Commit();
  EXPECT_EQ(cache_.next_expiry(), clock_.Now() + absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(cache_.Expire(1), 1);
  EXPECT_EQ(cache_.counts().host.free, 5);
  EXPECT_EQ(cache_.Get("a", handle).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(SpillTest, SharedPagesStay) {
  const SequenceHandle trunk = Filled(8);
  const SequenceHandle fork = *cache_.Fork("a", trunk, 4);
  std::optional<CacheStep> spill = cache_.Spill(8);
  ASSERT_THAT(spill->copies(), SizeIs(1));
  spill->Commit();
  EXPECT_EQ(Info(trunk).host_pages, 1);
  EXPECT_EQ(Info(fork).host_pages, 0);
  ASSERT_TRUE(cache_.Release("a", trunk).ok());
  EXPECT_THAT(cache_.Spill(8)->copies(), SizeIs(1)) << "the fork's alone now";
}

TEST_F(SpillTest, AForkOfASpilledSequenceSharesItsHostPages) {
  const SequenceHandle trunk = Filled(4);
  cache_.Spill(1)->Commit();
  const SequenceHandle fork = *cache_.Fork("a", trunk, {});
  EXPECT_EQ(cache_.counts().host.free, 4);
  Use(fork, 1);
  EXPECT_EQ(Info(fork).host_pages, 0);
  EXPECT_EQ(Info(trunk).host_pages, 1);
  EXPECT_EQ(cache_.counts().host.free, 4);
}

TEST_F(SpillTest, UsedMeanwhile) {
  const SequenceHandle handle = Filled(8);
  std::optional<CacheStep> spill = cache_.Spill(2);
  EXPECT_EQ(cache_.Reserve("a", {{handle, 0, 1}}).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(cache_.Truncate("a", handle, 1).code(), absl::StatusCode::kAborted);
  auto reads = cache_.Reserve("a", {{handle, 0, 0}});
  ASSERT_TRUE(reads.ok());
  spill->Commit();
  EXPECT_EQ(cache_.counts().device.free, 6) << "still read";
  reads->Commit();
  EXPECT_EQ(cache_.counts().device.free, 8);
  spill.reset();
}

TEST_F(SpillTest, ReleasedMeanwhile) {
  const SequenceHandle handle = Filled(8);
  std::optional<CacheStep> spill = cache_.Spill(2);
  ASSERT_TRUE(cache_.Release("a", handle).ok());
  EXPECT_EQ(cache_.counts().device.free, 6) << "the copies still read them";
  spill->Commit();
  EXPECT_EQ(cache_.counts().device.free, 8);
  EXPECT_EQ(cache_.counts().host.free, 5);
  EXPECT_EQ(cache_.counts().sequences, 0);
}

TEST_F(SpillTest, RolledBack) {
  const SequenceHandle handle = Filled(8);
  cache_.Spill(2).reset();
  EXPECT_EQ(cache_.counts().host.free, 5);
  EXPECT_EQ(Info(handle).device_pages, 2);
  Use(handle, 1);
}

TEST_F(SpillTest, NeitherBeyondTheQuotaNorWhatIsNotThere) {
  EXPECT_FALSE(cache_.Spill(1).has_value()) << "nothing to move";
  Filled(8, "b");
  CacheStep within_quota = *cache_.Spill(2);
  EXPECT_THAT(within_quota.copies(), SizeIs(1)) << "tenant b may have one page on the host";
  within_quota.Commit();
  EXPECT_FALSE(cache_.Spill(1).has_value());
  Filled(20);
  EXPECT_THAT(cache_.Spill(8)->copies(), SizeIs(4)) << "all that the host has left";
}

}  // namespace
}  // namespace tessera
