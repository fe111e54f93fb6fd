#include "server/request/attend_job.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "gtest/gtest.h"

namespace tessera {
namespace {

AttentionParams Params() {
  AttentionParams params;
  params.dtype = DType::kFloat16;
  params.q_heads = 6;
  params.kv_heads = 2;
  params.head_dim = 16;
  return params;
}

struct Call {
  StagingPool pool{*StagingPool::MapAnonymous(1 << 20)};
  ByteBudget budget{16 << 20, Clock::Real()};
  absl::Status status = absl::UnknownError("not done");
  Job::State where = Job::State::kDone;

  std::shared_ptr<AttendJob> Make(const AttendShape& shape) {
    return std::make_shared<AttendJob>(
        Job::Traits{}, shape, *pool.Allocate(shape.input_bytes()), *pool.Allocate(shape.output_bytes()),
        *budget.Acquire("tenant", {shape.held_bytes()}), [this](const absl::Status& s, Job::State w) {
          status = s;
          where = w;
        });
  }
};

TEST(AttendJob, ViewsTileTheBuffers) {
  Call call;
  const AttendShape shape = *AttendShape::Make(Params(), {3, 0, 5}, {7, 2, 0}, true, {});
  const std::shared_ptr<AttendJob> job = call.Make(shape);
  const std::byte* q = job->input().data();
  const std::byte* k = q + shape.q_bytes;
  const std::byte* v = k + shape.kv_bytes;
  const std::byte* o = job->output().data();
  const std::byte* lse = o + shape.q_bytes;
  ASSERT_EQ(job->sequences().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    const SequenceView& view = job->sequences()[i];
    EXPECT_EQ(view.q_len, shape.q_lengths[i]);
    EXPECT_EQ(view.kv_len, shape.kv_lengths[i]);
    EXPECT_EQ(view.q, q);
    EXPECT_EQ(view.k, k);
    EXPECT_EQ(view.v, v);
    EXPECT_EQ(view.o, o);
    EXPECT_EQ(static_cast<void*>(view.lse), lse);
    EXPECT_TRUE(ValidateSequence(shape.params, view).ok());
    q += view.q_len * 6 * 16 * 2;
    k += view.kv_len * 2 * 16 * 2;
    v += view.kv_len * 2 * 16 * 2;
    o += view.q_len * 6 * 16 * 2;
    lse += view.q_len * 6 * 4;
  }
  EXPECT_EQ(v, job->input().data() + shape.input_bytes());
  EXPECT_EQ(lse, job->output().data() + shape.output_bytes());
}

TEST(AttendJob, LseIsNullWhereItIsNotWanted) {
  Call call;
  const auto job = call.Make(*AttendShape::Make(Params(), {3}, {}, false, {}));
  EXPECT_EQ(job->sequences()[0].lse, nullptr);
}

TEST(AttendJob, HoldsMemoryUntilTheLastOwnerLetsGo) {
  Call call;
  std::shared_ptr<AttendJob> job = call.Make(*AttendShape::Make(Params(), {8}, {}, true, {}));
  ASSERT_GT(call.pool.in_use(), 0u);
  EXPECT_TRUE(job->Finish(absl::CancelledError("gone")));
  EXPECT_EQ(call.status.message(), "gone");
  EXPECT_EQ(call.where, Job::State::kCreated);
  EXPECT_GT(call.pool.in_use(), 0u) << "a device may still write to it";
  EXPECT_GT(call.budget.in_use(), 0);
  job.reset();
  EXPECT_EQ(call.pool.in_use(), 0u);
  EXPECT_EQ(call.budget.in_use(), 0);
}

TEST(AttendJobDeathTest, BuffersMustFitTheShape) {
  Call call;
  const AttendShape shape = *AttendShape::Make(Params(), {8}, {}, true, {});
  EXPECT_DEATH(AttendJob(Job::Traits{}, shape, *call.pool.Allocate(8), *call.pool.Allocate(shape.output_bytes()), {},
                         [](const absl::Status&, Job::State) {}),
               "input is as large");
}

TEST(AttendJob, EmptySequencesAreHeldAndCost) {
  RequestLimits limits;
  limits.max_sequences = 65536;
  const std::vector<uint32_t> empty(65536, 0);
  const AttendShape shape = *AttendShape::Make(Params(), empty, {}, false, limits);
  EXPECT_EQ(shape.input_bytes() + shape.output_bytes(), 0);
  Call call;
  const auto job = call.Make(shape);
  EXPECT_GE(shape.held_bytes(),
            static_cast<int64_t>(job->sequences().capacity() * sizeof(SequenceView) +
                                 (shape.q_lengths.size() + shape.kv_lengths.size()) * sizeof(int64_t)));
  EXPECT_EQ(shape.Cost(), static_cast<int64_t>(AttendShape::kFlopsPerByte) * shape.held_bytes());
}

TEST(AttendJob, KeyDistinguishesEveryParameter) {
  std::vector<AttentionParams> variants(10, Params());
  variants[1].dtype = DType::kBFloat16;
  variants[2].q_heads = 8;
  variants[3].kv_heads = 3;
  variants[4].head_dim = 24;
  variants[5].scale = 0.5f;
  variants[6].softcap = 1.0f;  // the bits of the default scale: fields must not be mixed up
  variants[7].mask.left = 0;
  variants[8].mask.right = 0;
  std::swap(variants[9].q_heads, variants[9].kv_heads);
  for (size_t a = 0; a < variants.size(); ++a) {
    for (size_t b = 0; b < variants.size(); ++b) {
      EXPECT_EQ(AttendJob::Key(variants[a]) == AttendJob::Key(variants[b]), a == b) << a << " and " << b;
    }
  }
}

}  // namespace
}  // namespace tessera
