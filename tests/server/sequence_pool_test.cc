// A pool of pages that is full, under load: whoever is refused is counted and served later, nothing is lost, and what
// has been on the host is as it was.
#include <string>

#include "gtest/gtest.h"
#include "tests/random/seed.h"
#include "tests/server/pool_load.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

constexpr double kTolerance = 1e-5;

class SequencePoolTest : public ::testing::TestWithParam<int32_t> {};

TEST_P(SequencePoolTest, RefusalsAreCountedAndNothingIsLost) {
  const CacheProfile profile = PoolProfile("pool", /*host_pages=*/GetParam());
  ServerConfig config = TestServer::Config();
  config.kv_profiles = {profile};
  TestServer server("", config);
  const PoolReport report = RunPoolLoad([&server] { return server.NewChannel(); }, profile, {.seed = RandomSeed()});
  EXPECT_EQ(report.failed, 0);
  EXPECT_LT(report.worst_error, kTolerance);
  EXPECT_GT(report.extended, 300);
  EXPECT_GT(report.refused, 0);
  EXPECT_GT(report.read_at_end, 0);
  server.AwaitIdle();
  EXPECT_EQ(WrongInPoolMetrics(server.Metrics(), profile, report), "");
}

// Without room on the host, and with room that is too little for all.
INSTANTIATE_TEST_SUITE_P(HostPages, SequencePoolTest, ::testing::Values(0, 40));

}  // namespace
}  // namespace tessera::testing
