#include "server/scheduler/job.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

class RecordingJob final : public Job {
 public:
  RecordingJob() : Job(Traits{}) {}

  std::atomic<int> times_done{0};
  absl::Status status;
  State where = State::kDone;

 private:
  void OnDone(const absl::Status& final_status, State final_where) override {
    ++times_done;
    status = final_status;
    where = final_where;
  }
};

TEST(Job, AdvancesOnlyFromTheStateNamed) {
  RecordingJob job;
  EXPECT_FALSE(job.Advance(Job::State::kQueued, Job::State::kBatched));
  EXPECT_EQ(job.state(), Job::State::kCreated);
  EXPECT_TRUE(job.Advance(Job::State::kCreated, Job::State::kQueued));
  EXPECT_TRUE(job.Advance(Job::State::kQueued, Job::State::kBatched));
  EXPECT_TRUE(job.Advance(Job::State::kBatched, Job::State::kRunning));
  EXPECT_EQ(job.state(), Job::State::kRunning);
}

TEST(Job, EndsOnceFromEveryState) {
  const std::vector<Job::State> path = {Job::State::kCreated, Job::State::kQueued, Job::State::kBatched,
                                        Job::State::kRunning};
  for (size_t end = 0; end < path.size(); ++end) {
    RecordingJob job;
    for (size_t i = 0; i < end; ++i) ASSERT_TRUE(job.Advance(path[i], path[i + 1]));
    EXPECT_TRUE(job.Finish(absl::CancelledError("first")));
    EXPECT_FALSE(job.Finish(absl::OkStatus()));
    EXPECT_EQ(job.status.message(), "first");
    EXPECT_EQ(job.where, path[end]);
    EXPECT_EQ(job.times_done, 1);
    EXPECT_EQ(job.state(), Job::State::kDone);
    if (end + 1 < path.size()) {
      EXPECT_FALSE(job.Advance(path[end], path[end + 1])) << "an ended job goes nowhere";
    }
  }
}

TEST(Job, OneOfManyRacersEndsIt) {
  for (int round = 0; round < 500; ++round) {
    RecordingJob job;
    std::atomic<int> winners{0};
    std::vector<std::thread> racers;
    for (int i = 0; i < 3; ++i) {
      racers.emplace_back([&] {
        if (job.Finish(absl::CancelledError(""))) ++winners;
      });
    }
    job.Advance(Job::State::kCreated, Job::State::kQueued);
    for (std::thread& racer : racers) racer.join();
    ASSERT_EQ(winners, 1);
    ASSERT_EQ(job.times_done, 1);
  }
}

}  // namespace
}  // namespace tessera
