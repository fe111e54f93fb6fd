#include "client/cpp/load/run_stats.h"

#include "gtest/gtest.h"

namespace tessera::load {
namespace {

RunStats Round(absl::Duration window, int64_t ok, double rate) {
  RunStats stats;
  stats.window = window;
  stats.shapes.resize(1);
  for (GroupStats* group : {&stats.shapes[0], &stats.total}) {
    group->ok = ok;
    group->errors[absl::StatusCode::kUnavailable] = 1;
    group->failed = 1;
    group->requests_per_second = rate;
    group->upload_bytes_per_second = 10 * rate;
    group->latency.Record(1000 * ok);
  }
  return stats;
}

TEST(RunStatsTest, RoundsWeighByTheirWindows) {
  RunStats stats;
  stats.AppendRound(Round(absl::Seconds(1), 100, 100));
  stats.AppendRound(Round(absl::Seconds(3), 60, 20));
  EXPECT_EQ(stats.window, absl::Seconds(4));
  for (const GroupStats* group : {&stats.shapes[0], &stats.total}) {
    EXPECT_EQ(group->ok, 160);
    EXPECT_EQ(group->errors.at(absl::StatusCode::kUnavailable), 2);
    EXPECT_DOUBLE_EQ(group->requests_per_second, 40);  // 160 answers in 4 s
    EXPECT_DOUBLE_EQ(group->upload_bytes_per_second, 400);
    EXPECT_EQ(group->latency.count(), 2);
  }
}

TEST(RunStatsTest, ErrorFractionIsOfAllThatWasDue) {
  GroupStats group;
  EXPECT_EQ(group.error_fraction(), 0);
  group.ok = 6;
  group.failed = 1;
  group.dropped = 3;
  EXPECT_DOUBLE_EQ(group.error_fraction(), 0.4);
}

}  // namespace
}  // namespace tessera::load
