#include "server/request/extend_job.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/clock/clock.h"
#include "server/request/attend_job.h"

namespace tessera {
namespace {

CacheProfile Profile() {
  return {.name = "p",
          .layers = 2,
          .kv_heads = 2,
          .head_dim = 8,
          .dtype = DType::kFloat16,
          .page_tokens = 4,
          .pages = 2,
          .max_tokens = 100};
}

AttentionParams Params() {
  AttentionParams params;
  params.dtype = DType::kFloat16;
  params.q_heads = 4;
  params.kv_heads = 2;
  params.head_dim = 8;
  params.mask = Mask::Causal();
  return params;
}

class ExtendJobTest : public ::testing::Test {
 protected:
  ExtendJobTest() {
    auto region = *StagingPool::MapAnonymous(static_cast<size_t>(Profile().bytes()));
    memory_ = region->data();
    cache_ = std::make_shared<ResidentCache>(Profile(), 0, std::move(region), Clock::Real());
  }

  SequenceHandle Create(const char* tenant) { return cache_->sequences().Create(tenant, 1)->front(); }

  ExtendJobPtr Make(std::vector<ExtendEntry> entries) {
    ExtendShape shape = *ExtendShape::Make(Params(), std::move(entries), /*return_lse=*/true, Profile(), {});
    StagingBuffer input = *pool_.Allocate(static_cast<size_t>(shape.input_bytes()));
    StagingBuffer output = *pool_.Allocate(static_cast<size_t>(shape.output_bytes()));
    return std::make_shared<ExtendJob>(Job::Traits{}, cache_, std::move(shape), std::move(input), std::move(output),
                                       *budget_.Acquire("a", {1000}),
                                       [this](const absl::Status& status, Job::State) { ended_ = status; });
  }

  // Has the job's turn come, and its step reserved.
  void Begin(ExtendJob& job, const char* tenant) {
    std::vector<StepEntry> entries;
    std::vector<SequenceHandle> sequences;
    for (const ExtendEntry& entry : job.shape().entries) {
      entries.push_back({entry.sequence, entry.layer, entry.append_tokens});
      sequences.push_back(entry.sequence);
    }
    cache_->turns().Join(sequences, &job.place(), [&](absl::StatusOr<SequenceTurns::Turn> turn) {
      absl::StatusOr<CacheStep> step = cache_->sequences().Reserve(tenant, entries);
      ASSERT_TRUE(step.ok()) << step.status();
      job.Begin(*std::move(turn), *std::move(step), /*cost=*/1234);
    });
  }

  int64_t length(const char* tenant, const SequenceHandle& sequence, int layer) {
    return *cache_->sequences().LayerLength(tenant, sequence, layer);
  }

  StagingPool pool_{*StagingPool::MapAnonymous(1 << 20)};
  ByteBudget budget_{16 << 20, Clock::Real()};
  std::byte* memory_ = nullptr;
  ResidentCachePtr cache_;
  absl::Status ended_ = absl::UnknownError("not ended");
};

TEST_F(ExtendJobTest, ViewsTileTheBuffersAndNameTheLayersPages) {
  const SequenceHandle a = Create("a"), b = Create("a");
  const ExtendJobPtr job = Make({{a, 1, 3, 2}, {b, 0, 1, 4}});
  Begin(*job, "a");
  EXPECT_EQ(job->traits().cost, 1234);
  const absl::Span<const PagedSequence> views = job->sequences();
  ASSERT_EQ(views.size(), 2u);
  const size_t row = 8 * 2;  // bytes of a head
  EXPECT_EQ(views[0].q, job->input().data());
  EXPECT_EQ(views[1].q, job->input().data() + 3 * 4 * row);
  EXPECT_EQ(views[0].k, job->input().data() + 4 * 4 * row);
  EXPECT_EQ(views[1].k, job->input().data() + 4 * 4 * row + 2 * 2 * row);
  EXPECT_EQ(views[0].v, job->input().data() + 4 * 4 * row + 6 * 2 * row);
  EXPECT_EQ(views[1].o, job->output().data() + 3 * 4 * row);
  EXPECT_EQ(static_cast<void*>(views[0].lse), job->output().data() + 4 * 4 * row);
  const size_t plane = 4 * 2 * row;
  EXPECT_EQ(views[0].layer.k_pages, memory_ + 2 * plane);
  EXPECT_EQ(views[0].layer.v_pages, memory_ + 3 * plane);
  EXPECT_EQ(views[1].layer.k_pages, memory_);
  EXPECT_EQ(job->params().page_stride, 4 * 4 * 2 * 8);
  EXPECT_TRUE(ValidatePagedBatch(job->params(), views).ok());
  EXPECT_EQ(job->lengths(), (std::vector<int64_t>{2, 4}));
}

TEST_F(ExtendJobTest, TheStepIsCommittedWhenTheJobEndsWell) {
  const SequenceHandle a = Create("a");
  ExtendJobPtr job = Make({{a, 0, 1, 3}});
  Begin(*job, "a");
  EXPECT_EQ(length("a", a, 0), 0);
  EXPECT_TRUE(job->Complete({}));
  EXPECT_TRUE(ended_.ok());
  EXPECT_EQ(length("a", a, 0), 3);
  EXPECT_EQ(cache_->turns().places(), 0) << "others need not wait until the answer is sent";
}

TEST_F(ExtendJobTest, AJobThatEndsOtherwiseKeepsItsPagesWhileItIsHeld) {
  const SequenceHandle a = Create("a");
  ExtendJobPtr job = Make({{a, 0, 1, 3}});
  Begin(*job, "a");
  EXPECT_TRUE(job->Finish(absl::CancelledError("")));
  EXPECT_EQ(cache_->turns().places(), 1);
  EXPECT_EQ(cache_->sequences().counts().device.free, 1);
  job.reset();
  EXPECT_EQ(cache_->turns().places(), 0);
  EXPECT_EQ(cache_->sequences().counts().device.free, 2);
  EXPECT_EQ(length("a", a, 0), 0);
}

TEST_F(ExtendJobTest, PagesThatChangeHandsAreClearedFirst) {
  const SequenceHandle a = Create("a"), b = Create("b");
  ExtendJobPtr first = Make({{a, 0, 1, 8}});
  Begin(*first, "a");
  EXPECT_TRUE(first->fills().empty()) << "nobody has written to these pages";
  first->Complete({});
  ASSERT_TRUE(cache_->sequences().Release("a", a).ok());
  ExtendJobPtr second = Make({{b, 0, 1, 5}});
  Begin(*second, "b");
  ASSERT_EQ(second->fills().size(), 2u);
  for (const MemoryFill& fill : second->fills()) {
    EXPECT_EQ(fill.bytes, static_cast<size_t>(Profile().page_bytes()));
    EXPECT_EQ((fill.at - memory_) % Profile().page_bytes(), 0);
  }
  EXPECT_NE(second->fills()[0].at, second->fills()[1].at);
  second->Complete({});
}

TEST_F(ExtendJobTest, SharedPagesAreCopiedInAllLayersBeforeTheyAreWritten) {
  const SequenceHandle a = Create("a");
  ExtendJobPtr first = Make({{a, 0, 1, 3}});
  Begin(*first, "a");
  first->Complete({});
  const SequenceHandle fork = *cache_->sequences().Fork("a", a, std::nullopt);
  ExtendJobPtr second = Make({{fork, 0, 1, 1}});
  Begin(*second, "a");
  const size_t plane = 4 * 2 * 8 * 2;
  ASSERT_EQ(second->copies().on_device.size(), 4u);  // K and V of two layers
  for (size_t i = 0; i < 4; ++i) {
    const MemoryCopy& copy = second->copies().on_device[i];
    EXPECT_EQ(copy.bytes, 3u * 2 * 8 * 2);
    EXPECT_EQ(copy.from, second->copies().on_device[0].from + i * plane);
    EXPECT_EQ(copy.to, second->copies().on_device[0].to + i * plane);
  }
  second->Complete({});
}

TEST_F(ExtendJobTest, KeysTellCachesAndKindsApart) {
  auto region = *StagingPool::MapAnonymous(static_cast<size_t>(Profile().bytes()));
  const ResidentCache other(Profile(), 0, std::move(region), Clock::Real());
  EXPECT_EQ(ExtendJob::Key(Params(), *cache_), ExtendJob::Key(Params(), *cache_));
  EXPECT_FALSE(ExtendJob::Key(Params(), *cache_) == ExtendJob::Key(Params(), other));
  EXPECT_FALSE(ExtendJob::Key(Params(), *cache_) == AttendJob::Key(Params()));
}

}  // namespace
}  // namespace tessera
