// Sequences, handles, leases and quotas; steps have tests of their own.
#include "server/cache/sequence_cache.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/clock/fake_clock.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

class SequenceCacheTest : public ::testing::Test {
 protected:
  static SequenceCacheOptions Options() {
    return {.layers = 2,
            .page_tokens = 4,
            .device_pages = 10,
            .max_sequences = 6,
            .max_tokens = 100,
            .lease = absl::Seconds(30),
            .quota = {.sequences = 4}};
  }

  SequenceHandle CreateOne(absl::string_view tenant = "a") { return cache_.Create(tenant, 1)->front(); }

  void Extend(const SequenceHandle& handle, int32_t layer, int64_t tokens, absl::string_view tenant = "a") {
    auto step = cache_.Reserve(tenant, {{handle, layer, tokens}});
    ASSERT_TRUE(step.ok()) << step.status();
    step->Commit();
  }

  absl::StatusCode CodeOf(const SequenceHandle& handle, absl::string_view tenant = "a") {
    return cache_.Get(tenant, handle).status().code();
  }

  FakeClock clock_;
  SequenceCache cache_{Options(), &clock_};
};

TEST_F(SequenceCacheTest, PagesInTablesAreBounded) {
  SequenceCacheOptions options = Options();
  options.max_table_pages = 8;
  options.quota.table_pages = 6;
  SequenceCache cache(options, &clock_);
  const auto extend = [&cache](const SequenceHandle& handle, int64_t tokens, absl::string_view tenant) {
    auto step = cache.Reserve(tenant, {{handle, 0, tokens}});
    if (!step.ok()) return step.status().code();
    step->Commit();
    return absl::StatusCode::kOk;
  };
  const SequenceHandle first = cache.Create("a", 1)->front();
  ASSERT_EQ(extend(first, 12, "a"), absl::StatusCode::kOk);
  const auto fork = cache.Fork("a", first, std::nullopt);
  ASSERT_TRUE(fork.ok()) << "six";
  EXPECT_EQ(cache.Fork("a", first, 1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(cache.Fork("a", first, 0).ok()) << "it has no pages";
  EXPECT_EQ(extend(*fork, 1, "a"), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(cache.CheckInvariants(), absl::OkStatus()) << "the refused step has left nothing";

  const SequenceHandle others = cache.Create("b", 1)->front();
  EXPECT_EQ(extend(others, 9, "b"), absl::StatusCode::kResourceExhausted) << "the cache's, not the tenant's";
  EXPECT_EQ(extend(others, 8, "b"), absl::StatusCode::kOk);
  ASSERT_TRUE(cache.Truncate("a", *fork, 8).ok());
  EXPECT_EQ(extend(*fork, 4, "a"), absl::StatusCode::kOk);
  {
    auto under_way = cache.Reserve("b", {{others, 0, 0}});
    ASSERT_TRUE(under_way.ok());
    ASSERT_TRUE(cache.Release("b", others).ok());
    EXPECT_EQ(cache.Fork("a", first, 1).status().code(), absl::StatusCode::kResourceExhausted);
  }
  ASSERT_TRUE(cache.Release("a", *fork).ok());
  EXPECT_TRUE(cache.Fork("a", first, 12).ok());
  EXPECT_EQ(cache.CheckInvariants(), absl::OkStatus());
}

TEST_F(SequenceCacheTest, UnknownForeignAndStaleLookTheSame) {
  const SequenceHandle mine = CreateOne("a");
  const SequenceHandle stale = CreateOne("a");
  ASSERT_TRUE(cache_.Release("a", stale).ok());
  const SequenceHandle successor = CreateOne("a");
  ASSERT_EQ(successor.slot, stale.slot);
  SequenceCache restarted(Options(), &clock_);
  ASSERT_TRUE(restarted.Create("a", 1).ok());

  SequenceHandle guessed = mine;
  guessed.secret ^= 1;
  SequenceHandle beyond = mine;
  beyond.slot = 1000;
  const absl::Status unknown = cache_.Get("a", SequenceHandle{}).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  for (const absl::Status& status :
       {cache_.Get("b", mine).status(), cache_.Get("a", stale).status(), cache_.Get("a", guessed).status(),
        cache_.Get("a", beyond).status(), restarted.Get("a", mine).status(), cache_.Truncate("b", mine, 0),
        cache_.Release("a", stale), cache_.Fork("b", mine, 0).status(), cache_.Reserve("b", {{mine, 0, 1}}).status()}) {
    EXPECT_EQ(status, unknown);
  }
  EXPECT_EQ(CodeOf(mine), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf(successor), absl::StatusCode::kOk);
}

TEST_F(SequenceCacheTest, LayersHaveLengthsOfTheirOwnAndShareThePages) {
  const SequenceHandle handle = CreateOne();
  Extend(handle, 0, 5);
  Extend(handle, 1, 3);
  const auto info = cache_.Get("a", handle);
  EXPECT_THAT(info->lengths, ElementsAre(5, 3));
  EXPECT_EQ(info->device_pages, 2);
  EXPECT_EQ(cache_.counts().device.free, 8);
}

TEST_F(SequenceCacheTest, TruncateFreesWholePages) {
  const SequenceHandle handle = CreateOne();
  Extend(handle, 0, 9);
  Extend(handle, 1, 6);
  ASSERT_TRUE(cache_.Truncate("a", handle, 8).ok());
  EXPECT_THAT(cache_.Get("a", handle)->lengths, ElementsAre(8, 6));
  EXPECT_EQ(cache_.counts().device.free, 8);
  EXPECT_EQ(cache_.Truncate("a", handle, 9).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache_.Truncate("a", handle, -1).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(cache_.Truncate("a", handle, 0).ok());
  EXPECT_EQ(cache_.counts().device.free, 10);
}

TEST_F(SequenceCacheTest, AForkSharesPagesUntilTheLastOneGoes) {
  const SequenceHandle trunk = CreateOne();
  Extend(trunk, 0, 10);
  Extend(trunk, 1, 7);
  const auto fork = cache_.Fork("a", trunk, 8);
  ASSERT_TRUE(fork.ok());
  EXPECT_THAT(cache_.Get("a", *fork)->lengths, ElementsAre(8, 7));
  EXPECT_EQ(cache_.counts().device.free, 7) << "no page was copied";
  ASSERT_TRUE(cache_.Release("a", trunk).ok());
  EXPECT_EQ(cache_.counts().device.free, 8) << "the page beyond the fork";
  ASSERT_TRUE(cache_.Release("a", *fork).ok());
  EXPECT_EQ(cache_.counts().device.free, 10);
  EXPECT_EQ(cache_.CheckInvariants(), absl::OkStatus());
}

TEST_F(SequenceCacheTest, AForkIsWithinTheLongestLayer) {
  const SequenceHandle trunk = CreateOne();
  Extend(trunk, 1, 5);
  EXPECT_THAT(cache_.Get("a", *cache_.Fork("a", trunk, {}))->lengths, ElementsAre(0, 5));
  EXPECT_EQ(cache_.Fork("a", trunk, 6).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache_.Fork("a", trunk, -1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SequenceCacheTest, QuotasAndTheCachesOwnLimit) {
  EXPECT_EQ(cache_.Create("a", 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache_.Create("a", 5).status().code(), absl::StatusCode::kInvalidArgument) << "never fits the quota";
  ASSERT_TRUE(cache_.Create("a", 3).ok());
  EXPECT_EQ(cache_.Create("a", 2).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(cache_.counts().sequences, 3) << "all or none";
  ASSERT_TRUE(cache_.Create("b", 2).ok());
  EXPECT_EQ(cache_.Create("c", 2).status().code(), absl::StatusCode::kResourceExhausted) << "six in all";
  ASSERT_TRUE(cache_.Create("c", 1).ok());
  EXPECT_EQ(cache_.CheckInvariants(), absl::OkStatus());
}

TEST_F(SequenceCacheTest, TenantsMayHaveQuotasOfTheirOwn) {
  SequenceCacheOptions options = Options();
  options.quotas["small"] = {.sequences = 2, .device_pages = 2};
  SequenceCache cache(options, &clock_);
  const std::vector<SequenceHandle> handles = *cache.Create("small", 2);
  EXPECT_EQ(cache.Create("small", 1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(cache.Create("large", 4).ok());
  int64_t missing = -1;
  EXPECT_EQ(cache.Reserve("small", {{handles[0], 0, 9}}, &missing).status().code(), absl::StatusCode::kInvalidArgument);
  cache.Reserve("small", {{handles[0], 0, 8}})->Commit();
  EXPECT_EQ(cache.Reserve("small", {{handles[0], 0, 1}}, &missing).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache.Reserve("small", {{handles[1], 0, 1}}, &missing).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(missing, 0) << "free pages would not help";
}

TEST_F(SequenceCacheTest, ALeaseIsRenewedByUse) {
  const SequenceHandle used = CreateOne();
  const SequenceHandle forgotten = CreateOne();
  Extend(forgotten, 0, 4);
  clock_.Advance(absl::Seconds(29));
  EXPECT_EQ(CodeOf(used), absl::StatusCode::kOk);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(CodeOf(forgotten), absl::StatusCode::kNotFound) << "even before the sweep";
  EXPECT_EQ(CodeOf(used), absl::StatusCode::kOk);
  EXPECT_EQ(cache_.Expire(10), 1);
  EXPECT_EQ(cache_.counts().device.free, 10);
  EXPECT_EQ(cache_.next_expiry(), clock_.Now() + absl::Seconds(30));
}

TEST_F(SequenceCacheTest, ASweepIsBounded) {
  ASSERT_TRUE(cache_.Create("a", 3).ok());
  clock_.Advance(absl::Seconds(30));
  EXPECT_EQ(cache_.Expire(2), 2);
  EXPECT_EQ(cache_.Expire(2), 1);
  EXPECT_EQ(cache_.Expire(2), 0);
  EXPECT_EQ(cache_.next_expiry(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace tessera
