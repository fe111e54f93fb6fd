#include "client/cpp/flags/flag_names.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(FlagNamesTest, DashesInNamesBecomeUnderscoresAndTheRestStays) {
  std::vector<std::string> arguments = {"my-program", "--slo-p99=1-2", "--head-dim", "a-b", "-x-y", "--", "--a-b"};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  AcceptDashesInFlagNames(static_cast<int>(argv.size()), argv.data());
  EXPECT_THAT(arguments,
              ::testing::ElementsAre("my-program", "--slo_p99=1-2", "--head_dim", "a-b", "-x-y", "--", "--a-b"));
}

}  // namespace
}  // namespace tessera
