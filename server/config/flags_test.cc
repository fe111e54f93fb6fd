#include "server/config/flags.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/flags/reflection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/config/byte_size.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

int64_t Parsed(const std::string& text) {
  ByteSize size;
  std::string error;
  return AbslParseFlag(text, &size, &error) ? size.bytes : -1;
}

TEST(ByteSizeTest, TakesUnits) {
  EXPECT_EQ(Parsed("0"), 0);
  EXPECT_EQ(Parsed("65536"), 65536);
  EXPECT_EQ(Parsed("3KiB"), 3 << 10);
  EXPECT_EQ(Parsed("64MiB"), 64 << 20);
  EXPECT_EQ(Parsed("2GiB"), int64_t{2} << 30);
  EXPECT_EQ(Parsed("1TiB"), int64_t{1} << 40);
}

TEST(ByteSizeTest, RefusesWhatIsNoSize) {
  for (const char* text : {"", "KiB", "-1", "1.5GiB", "1GB", "9223372036854775808", "8388608TiB", "1 GiB x"}) {
    EXPECT_EQ(Parsed(text), -1) << text;
  }
}

TEST(ByteSizeTest, UnparsesToWhatParsesBack) {
  EXPECT_EQ(AbslUnparseFlag({int64_t{2} << 30}), "2GiB");
  for (const int64_t bytes :
       {int64_t{0}, int64_t{1}, int64_t{1536}, int64_t{1} << 40, std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(Parsed(AbslUnparseFlag({bytes})), bytes);
  }
}

TEST(FlagsTest, DashesInNamesBecomeUnderscoresAndValuesStay) {
  EXPECT_THAT(WithUnderscores({"my-server", "--drain-grace=1-2", "--metrics-address", "a-b", "-x-y", "--", "--a-b"}),
              ElementsAre("my-server", "--drain_grace=1-2", "--metrics_address", "a-b", "-x-y", "--", "--a-b"));
}

absl::StatusOr<CommandLine> Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "tessera-server");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return ParseCommandLine(static_cast<int>(argv.size()), argv.data());
}

TEST(FlagsTest, FlagsReachTheConfiguration) {
  const absl::FlagSaver saver;
  absl::StatusOr<CommandLine> line = Parse({"--listen=127.0.0.1:0", "--staging-bytes=8MiB", "--max-batch-requests=1",
                                            "--batch-delay=2ms", "--drain-grace=1s", "--log-level=debug"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.listen, "127.0.0.1:0");
  EXPECT_EQ(line->config.staging_bytes, 8 << 20);
  EXPECT_EQ(line->config.scheduler.max_batch_jobs, 1);
  EXPECT_EQ(line->config.scheduler.batch_delay, absl::Milliseconds(2));
  EXPECT_EQ(line->config.drain_grace, absl::Seconds(1));
  EXPECT_EQ(line->log_level, "debug");

  line = Parse({"serve"});
  EXPECT_EQ(line.status().code(), absl::StatusCode::kInvalidArgument);

  line = Parse({"--backend=tpu"});
  EXPECT_EQ(line.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(line.status().message()), HasSubstr("backend"));
}

TEST(ConfigTest, EveryRefusalNamesItsSetting) {
  const auto refusal = [](auto change) {
    ServerConfig config;
    change(config);
    return std::string(ValidateConfig(config).message());
  };
  EXPECT_TRUE(ValidateConfig({}).ok());
  EXPECT_THAT(refusal([](ServerConfig& c) { c.slots = -1; }), HasSubstr("slots"));
  EXPECT_THAT(refusal([](ServerConfig& c) { c.max_message_bytes = int64_t{4} << 30; }), HasSubstr("max_message_bytes"));
  EXPECT_THAT(refusal([](ServerConfig& c) { c.scheduler.max_batch_jobs = 0; }), HasSubstr("max_batch_requests"));
  EXPECT_THAT(refusal([](ServerConfig& c) { c.scheduler.max_queue_jobs = 0; }), HasSubstr("max_queue_requests"));
  EXPECT_THAT(refusal([](ServerConfig& c) { c.scheduler.max_batch_cost = -1; }), HasSubstr("max_batch_cost"));
  EXPECT_THAT(refusal([](ServerConfig& c) { c.drain_grace = -absl::Seconds(1); }), HasSubstr("drain_grace"));
  EXPECT_THAT(refusal([](ServerConfig& c) { c.engine.watchdog_period = absl::ZeroDuration(); }),
              HasSubstr("watchdog_period"));
  for (const double pace : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(refusal([pace](ServerConfig& c) { c.engine.slowest_pace = pace; }), HasSubstr("slowest_pace"));
  }
  EXPECT_THAT(refusal([](ServerConfig& c) { c.min_ping_interval = absl::InfiniteDuration(); }),
              HasSubstr("min_ping_interval"));
  // None of them would fit gRPC's int of milliseconds, or mean anything to it.
  for (const absl::Duration keepalive : {absl::ZeroDuration(), absl::Hours(24 * 25), absl::InfiniteDuration()}) {
    EXPECT_THAT(refusal([keepalive](ServerConfig& c) { c.keepalive = keepalive; }), HasSubstr("keepalive"));
  }
}

TEST(ConfigTest, OnlyGpusSlotsLookOut) {
  const ServerConfig config;
  EXPECT_EQ(SchedulerOptionsFor(config, "cpu").lookout, absl::ZeroDuration());
  EXPECT_EQ(SchedulerOptionsFor(config, "cuda").lookout, config.scheduler.lookout);
}

TEST(ConfigTest, BatchCostSuitsTheBackendUnlessItIsChosen) {
  ServerConfig config;
  EXPECT_EQ(SchedulerOptionsFor(config, "cpu").max_batch_cost, int64_t{1} << 33);
  EXPECT_EQ(SchedulerOptionsFor(config, "cuda").max_batch_cost, int64_t{1} << 40);
  config.scheduler.max_batch_cost = 7;
  EXPECT_EQ(SchedulerOptionsFor(config, "cpu").max_batch_cost, 7);
}

}  // namespace
}  // namespace tessera
