#include "client/cpp/load/load_config.h"

#include <functional>
#include <string>

#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "client/cpp/flags/flag_names.h"
#include "client/cpp/load/load_flags.h"
#include "client/cpp/load/progress.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::load {
namespace {

using ::testing::HasSubstr;

LoadConfig Valid() {
  LoadConfig config;
  config.server.address = "localhost:1";
  config.shapes = {*ParseCallShape("s=1")};
  config.length.measured = absl::Seconds(10);
  return config;
}

TEST(LoadConfigTest, RefusalsNameTheFlag) {
  const std::pair<const char*, std::function<void(LoadConfig*)>> cases[] = {
      {"target", [](LoadConfig* c) { c->server.address = ""; }},
      {"shape", [](LoadConfig* c) { c->shapes.clear(); }},
      {"callers", [](LoadConfig* c) { c->callers = 0; }},
      {"regions", [](LoadConfig* c) { c->regions = RegionKind::kCuda, c->mode = LoadMode::kPoisson; }},
      {"regions", [](LoadConfig* c) { c->regions = RegionKind::kCuda, c->server.address = "", c->echo = true; }},
      {"rate", [](LoadConfig* c) { c->rate = -1; }},
      {"connections", [](LoadConfig* c) { c->server.connections = 0; }},
      {"timeout", [](LoadConfig* c) { c->server.timeout = absl::InfiniteDuration(); }},
      {"attempts", [](LoadConfig* c) { c->server.attempts = 0; }},
      {"max_in_flight", [](LoadConfig* c) { c->max_in_flight = 0; }},
      {"payloads", [](LoadConfig* c) { c->payloads = 0; }},
      {"verify", [](LoadConfig* c) { c->verify = -1; }},
      {"rounds", [](LoadConfig* c) { c->rounds = 0; }},
      {"rounds", [](LoadConfig* c) { c->mode = LoadMode::kRamp, c->rounds = 2; }},
      {"requests", [](LoadConfig* c) { c->length.max_requests = -1; }},
      {"warm_up", [](LoadConfig* c) { c->length.warm_up = -absl::Seconds(1); }},
      {"duration", [](LoadConfig* c) { c->length.measured = absl::InfiniteDuration(); }},
      {"rate", [](LoadConfig* c) { c->mode = LoadMode::kPoisson, c->rate = 1e9; }},
      {"ramp_start", [](LoadConfig* c) { c->mode = LoadMode::kRamp, c->ramp.first_rate = 0; }},
      {"ramp_growth", [](LoadConfig* c) { c->mode = LoadMode::kRamp, c->ramp.growth = 1; }},
      {"ramp_max", [](LoadConfig* c) { c->mode = LoadMode::kRamp, c->ramp.max_rate = 1; }},
      {"slo_errors", [](LoadConfig* c) { c->mode = LoadMode::kRamp, c->ramp.slo.error_fraction = 1; }},
  };
  for (const auto& [flag, spoil] : cases) {
    LoadConfig config = Valid();
    EXPECT_TRUE(CompleteConfig(&config).ok());
    spoil(&config);
    const absl::Status status = CompleteConfig(&config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << flag;
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string("--") + flag));
  }
}

TEST(LoadConfigTest, OpenLoopOfSoManyRequestsGetsTheTimeForThem) {
  LoadConfig config = Valid();
  config.mode = LoadMode::kPoisson;
  config.rate = 50;
  config.length.max_requests = 1000;
  config.length.measured = absl::InfiniteDuration();
  ASSERT_TRUE(CompleteConfig(&config).ok());
  EXPECT_GT(config.length.measured, absl::Seconds(20));
  EXPECT_LT(config.length.measured, absl::Seconds(30));
}

TEST(LoadConfigTest, RampTakesItsStepFromTheLength) {
  LoadConfig config = Valid();
  config.mode = LoadMode::kRamp;
  config.seed = 77;
  config.max_in_flight = 5;
  ASSERT_TRUE(CompleteConfig(&config).ok());
  EXPECT_EQ(config.ramp.step.measured, absl::Seconds(10));
  EXPECT_EQ(config.ramp.seed, 77u);
  EXPECT_EQ(config.ramp.max_in_flight, 5);
}

TEST(LoadFlagsTest, BothSpellingsAndRepeatedShapes) {
  const absl::FlagSaver saver;
  std::string arguments[] = {"tessera-load", "--shape=s=1,name=a-b", "--slo-p99=5ms", "--mode=ramp", "--shape",
                             "s=2",          "--ramp_start=7",       "--requests=3"};
  char* argv[std::size(arguments)];
  for (size_t i = 0; i < std::size(arguments); ++i) argv[i] = arguments[i].data();
  AcceptDashesInFlagNames(std::size(argv), argv);
  absl::ParseCommandLine(std::size(argv), argv);
  auto config = ConfigFromFlags();
  // A ramp needs steps of finite length.
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("--duration"));
  ASSERT_TRUE(absl::FindCommandLineFlag("duration")->ParseFrom("3s", nullptr));
  config = ConfigFromFlags();
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->shapes.size(), 2u);
  EXPECT_EQ(config->shapes[0].name, "a-b");
  EXPECT_EQ(config->shapes[1].q_length, 2);
  EXPECT_EQ(config->ramp.slo.p99, absl::Milliseconds(5));
  EXPECT_EQ(config->ramp.first_rate, 7);
  EXPECT_EQ(config->ramp.step.measured, absl::Seconds(3));
  const auto values = FlagValues();
  EXPECT_THAT(values, testing::Contains(std::pair<std::string, std::string>("mode", "ramp")));
  EXPECT_THAT(values, testing::Contains(std::pair<std::string, std::string>("shape 2", "s=2")));
}

TEST(ProgressTest, LineShowsTheLastSecond) {
  EXPECT_EQ(FormatProgress("server", absl::Seconds(12), absl::Seconds(2), {6824, 1, 2, 1230000, 4560000}, 64),
            "server     12 s    3412.0/s  in flight    64  p50  1.23 ms  p99  4.56 ms  errors 3");
}

}  // namespace
}  // namespace tessera::load
