// What a step sets aside, what it shows before it is committed, and how steps meet.
#include <optional>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/cache/sequence_cache.h"
#include "server/clock/fake_clock.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class StepTest : public ::testing::Test {
 protected:
  SequenceHandle CreateOne(absl::string_view tenant = "a") { return cache_.Create(tenant, 1)->front(); }

  CacheStep MustReserve(const std::vector<StepEntry>& entries, absl::string_view tenant = "a") {
    auto step = cache_.Reserve(tenant, entries);
    EXPECT_TRUE(step.ok()) << step.status();
    return *std::move(step);
  }
  void Extend(const SequenceHandle& handle, int32_t layer, int64_t tokens) {
    MustReserve({{handle, layer, tokens}}).Commit();
  }
  absl::StatusCode Refused(const std::vector<StepEntry>& entries, int64_t* missing = nullptr) {
    const auto step = cache_.Reserve("a", entries, missing);
    EXPECT_FALSE(step.ok());
    return step.status().code();
  }
  int64_t free() { return cache_.counts().device.free; }

  void TearDown() override { EXPECT_EQ(cache_.CheckInvariants(), absl::OkStatus()); }

  FakeClock clock_;
  SequenceCache cache_{{.layers = 2,
                        .page_tokens = 4,
                        .device_pages = 8,
                        .max_sequences = 10,
                        .max_tokens = 100,
                        .lease = absl::Seconds(30)},
                       &clock_};
};

TEST_F(StepTest, NothingShowsBeforeTheCommit) {
  const SequenceHandle handle = CreateOne();
  {
    const CacheStep step = MustReserve({{handle, 0, 6}});
    EXPECT_EQ(step.entry(0).length_before, 0);
    EXPECT_EQ(step.entry(0).length, 6);
    EXPECT_THAT(step.entry(0).pages, SizeIs(2));
    EXPECT_EQ(free(), 6);
    EXPECT_THAT(cache_.Get("a", handle)->lengths, ElementsAre(0, 0));
    EXPECT_EQ(cache_.Get("a", handle)->device_pages, 0);
  }
  EXPECT_EQ(free(), 8) << "rolled back";
  Extend(handle, 0, 6);
  EXPECT_THAT(cache_.Get("a", handle)->lengths, ElementsAre(6, 0));
}

TEST_F(StepTest, LayersOfOneSequenceShareAListOfItsPages) {
  const SequenceHandle one = CreateOne(), other = CreateOne();
  Extend(one, 0, 6);
  Extend(other, 1, 3);
  // The longest is neither the first nor the last of its sequence; a layer without a page is among them.
  const CacheStep step = MustReserve({{other, 0, 0}, {one, 1, 3}, {other, 1, 0}, {one, 0, 5}, {one, 1, 0}});
  EXPECT_THAT(step.entry(0).pages, SizeIs(0));
  EXPECT_THAT(step.entry(1).pages, SizeIs(1));
  EXPECT_THAT(step.entry(2).pages, SizeIs(1));
  EXPECT_THAT(step.entry(3).pages, SizeIs(3));
  EXPECT_THAT(step.entry(4).pages, SizeIs(0));
  EXPECT_EQ(step.entry(1).pages.data(), step.entry(3).pages.data());
  EXPECT_NE(step.entry(2).pages[0], step.entry(3).pages[0]);
  EXPECT_EQ(step.entry(1).length, 3);
  EXPECT_EQ(step.entry(3).length_before, 6);
}

TEST_F(StepTest, AllEntriesOrNone) {
  const SequenceHandle one = CreateOne();
  const SequenceHandle other = CreateOne();
  int64_t missing = -1;
  EXPECT_EQ(Refused({{one, 0, 16}, {other, 0, 17}}, &missing), absl::StatusCode::kInvalidArgument) << "9 of 8 pages";
  Extend(one, 0, 8);
  Extend(CreateOne(), 0, 4);
  EXPECT_EQ(Refused({{one, 0, 5}, {other, 0, 13}}, &missing), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(missing, 1);
  EXPECT_EQ(free(), 5);
  EXPECT_EQ(Refused({{one, 0, 1}, {SequenceHandle{}, 0, 1}}), absl::StatusCode::kNotFound);
  EXPECT_EQ(Refused({{one, 0, 1}, {other, 2, 1}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused({{one, 0, 1}, {other, 0, -1}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused({{one, 0, 1}, {one, 0, 1}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused({{one, 0, 93}}), absl::StatusCode::kInvalidArgument) << "beyond max_tokens";
  EXPECT_EQ(free(), 5);
  Extend(one, 0, 1);  // nothing of the refused is in its way
}

TEST_F(StepTest, WhatFitsAtNoTimeIsInvalid) {
  const SequenceHandle one = CreateOne(), other = CreateOne();
  Extend(one, 0, 18);
  int64_t missing = -1;
  EXPECT_EQ(Refused({{one, 0, 15}}, &missing), absl::StatusCode::kInvalidArgument) << "a sequence of 9 pages, of 8";
  EXPECT_EQ(Refused({{other, 0, 16}, {one, 1, 0}, {one, 0, 0}}, &missing), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(missing, 0) << "nobody's pages would help";
  // What the sequences of a call share counts once, and a page that is copied in place of another's does not count for
  // two: without the fork, it would not be copied.
  const SequenceHandle fork = *cache_.Fork("a", one, 18);
  Extend(other, 0, 12);
  EXPECT_EQ(Refused({{fork, 0, 1}, {one, 0, 9}}, &missing), absl::StatusCode::kResourceExhausted) << "8 pages, of 8";
  EXPECT_EQ(missing, 4);
  EXPECT_EQ(Refused({{fork, 0, 1}, {one, 0, 13}}, &missing), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused({{one, 0, 14}}, &missing), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(missing, 4);
}

TEST_F(StepTest, LayersOfOneStepShareNewPages) {
  const SequenceHandle handle = CreateOne();
  CacheStep step = MustReserve({{handle, 0, 4}, {handle, 1, 7}, {handle, 0, 0}});
  EXPECT_EQ(free(), 6);
  EXPECT_EQ(step.entry(0).pages[0], step.entry(1).pages[0]);
  EXPECT_EQ(step.entry(2).length, 0) << "reads what was there before";
  step.Commit();
  EXPECT_THAT(cache_.Get("a", handle)->lengths, ElementsAre(4, 7));
}

TEST_F(StepTest, ASharedPageIsCopiedBeforeItIsWritten) {
  const SequenceHandle trunk = CreateOne();
  Extend(trunk, 0, 6);
  const SequenceHandle fork = *cache_.Fork("a", trunk, 5);
  const std::vector<int32_t> pages = {MustReserve({{trunk, 0, 0}}).entry(0).pages[0],
                                      MustReserve({{trunk, 0, 0}}).entry(0).pages[1]};
  CacheStep step = MustReserve({{fork, 0, 1}});
  EXPECT_EQ(step.entry(0).pages[0], pages[0]) << "only read, so still shared";
  EXPECT_NE(step.entry(0).pages[1], pages[1]);
  ASSERT_THAT(step.copies(), SizeIs(1));
  EXPECT_EQ(step.copies()[0].from, PageRef(Place::kDevice, pages[1]));
  EXPECT_EQ(step.copies()[0].to, PageRef(Place::kDevice, step.entry(0).pages[1]));
  EXPECT_EQ(step.copies()[0].tokens, 1) << "of the fork's five";
  step.Commit();
  EXPECT_EQ(free(), 5);
  const CacheStep again = MustReserve({{fork, 0, 1}, {trunk, 0, 1}});
  EXPECT_THAT(again.copies(), SizeIs(0)) << "both are alone now";
}

TEST_F(StepTest, ALayerIsExtendedByOneStepAtATime) {
  const SequenceHandle handle = CreateOne();
  Extend(handle, 0, 1);
  CacheStep first = MustReserve({{handle, 0, 1}});
  EXPECT_EQ(Refused({{handle, 0, 1}}), absl::StatusCode::kAborted);
  EXPECT_EQ(cache_.Fork("a", handle, 1).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(cache_.Truncate("a", handle, 0).code(), absl::StatusCode::kAborted);
  CacheStep other_layer = MustReserve({{handle, 1, 1}});
  EXPECT_EQ(MustReserve({{handle, 0, 0}}).entry(0).length, 1) << "readers see what is committed";
  first.Commit();
  other_layer.Commit();
  EXPECT_THAT(cache_.Get("a", handle)->lengths, ElementsAre(2, 1));
}

TEST_F(StepTest, ATableIsChangedByOneStepAtATime) {
  const SequenceHandle handle = CreateOne();
  CacheStep grows = MustReserve({{handle, 0, 1}});
  EXPECT_EQ(Refused({{handle, 1, 1}}), absl::StatusCode::kAborted) << "it would need the page that is on its way";
  grows.Commit();
  Extend(handle, 1, 1);
  EXPECT_EQ(free(), 7);
}

TEST_F(StepTest, APageThatIsBeingReplacedIsNotWritten) {
  const SequenceHandle trunk = CreateOne();
  Extend(trunk, 0, 3);
  const SequenceHandle fork = *cache_.Fork("a", trunk, {});
  CacheStep copies = MustReserve({{fork, 0, 1}});
  ASSERT_THAT(copies.copies(), SizeIs(1));
  ASSERT_TRUE(cache_.Release("a", trunk).ok());  // the old page is the fork's alone now, but it will leave it
  EXPECT_EQ(Refused({{fork, 1, 1}}), absl::StatusCode::kAborted);
  copies.Commit();
  Extend(fork, 1, 1);
}

TEST_F(StepTest, ReleasedSequencesKeepTheirPagesUntilTheStepIsOver) {
  const SequenceHandle handle = CreateOne();
  Extend(handle, 0, 4);
  std::optional<CacheStep> reads = MustReserve({{handle, 0, 0}});
  CacheStep writes = MustReserve({{handle, 0, 2}});
  ASSERT_TRUE(cache_.Release("a", handle).ok());
  EXPECT_EQ(cache_.Get("a", handle).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(free(), 6);
  EXPECT_EQ(cache_.CheckInvariants(), absl::OkStatus());
  writes.Commit();
  EXPECT_EQ(free(), 7) << "the new page is of no use any more";
  reads.reset();
  EXPECT_EQ(free(), 8);
  EXPECT_EQ(cache_.counts().sequences, 0);
}

TEST_F(StepTest, AReadPageOutlivesTheTableThatLeavesIt) {
  const SequenceHandle trunk = CreateOne();
  Extend(trunk, 0, 3);
  const SequenceHandle fork = *cache_.Fork("a", trunk, {});
  std::optional<CacheStep> reads = MustReserve({{fork, 0, 0}});
  MustReserve({{fork, 0, 1}}).Commit();  // copies on write: the fork leaves the page that is being read
  ASSERT_TRUE(cache_.Release("a", trunk).ok());
  EXPECT_EQ(free(), 6) << "the old page, still read, and the new one";
  reads.reset();
  EXPECT_EQ(free(), 7);
}

TEST_F(StepTest, APinnedSequenceDoesNotExpire) {
  const SequenceHandle handle = CreateOne();
  std::optional<CacheStep> step = MustReserve({{handle, 0, 1}});
  clock_.Advance(absl::Minutes(5));
  EXPECT_EQ(cache_.Expire(10), 0);
  step->Commit();
  EXPECT_EQ(cache_.next_expiry(), clock_.Now() + absl::Seconds(30));
  clock_.Advance(absl::Seconds(30));
  EXPECT_EQ(cache_.Expire(10), 1);
  step.reset();
}

TEST_F(StepTest, AnotherTenantsPageIsScrubbedFirst) {
  for (int i = 0; i < 2; ++i) {
    const SequenceHandle mine = CreateOne("a");
    CacheStep step = MustReserve({{mine, 0, 32}}, "a");
    EXPECT_THAT(step.scrubs(), SizeIs(0)) << "fresh, or the tenant's own";
    step.Commit();
    const SequenceHandle keeps_the_tenant = CreateOne("a");
    ASSERT_TRUE(cache_.Release("a", mine).ok());
    (void)keeps_the_tenant;
  }
  const SequenceHandle theirs = CreateOne("b");
  EXPECT_THAT(MustReserve({{theirs, 0, 9}}, "b").scrubs(), SizeIs(3));
  // Rolled back: nobody knows whether it was done.
  CacheStep again = MustReserve({{theirs, 0, 9}}, "b");
  EXPECT_THAT(again.scrubs(), SizeIs(3));
  again.Commit();
  ASSERT_TRUE(cache_.Truncate("b", theirs, 0).ok());
  EXPECT_THAT(MustReserve({{theirs, 0, 9}}, "b").scrubs(), SizeIs(0));
}

TEST_F(StepTest, AStepWithoutEntriesIsOne) {
  CacheStep step = MustReserve({});
  EXPECT_EQ(step.size(), 0u);
  step.Commit();
}

}  // namespace
}  // namespace tessera
