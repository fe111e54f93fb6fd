#include "client/cpp/flags/command_line.h"

#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

ABSL_FLAG(int, two_words, 0, "of this test");

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::ExitedWithCode;
using ::testing::StrEq;

std::vector<char*> Parse(std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return ParseFlags(static_cast<int>(argv.size()), argv.data());
}

TEST(CommandLineTest, GivesTheWordsAndReadsTheFlags) {
  std::vector<std::string> arguments = {"program", "word", "--two-words=5"};
  EXPECT_THAT(Parse(arguments), ElementsAre(StrEq("program"), StrEq("word")));
  EXPECT_EQ(absl::GetFlag(FLAGS_two_words), 5);
}

TEST(CommandLineDeathTest, HelpIsNoFailureAndWrongUsageHasItsOwnCode) {
  std::vector<std::string> help = {"program", "--help"};
  EXPECT_EXIT(Parse(help), ExitedWithCode(0), "");
  std::vector<std::string> version = {"program", "--version"};
  EXPECT_EXIT(Parse(version), ExitedWithCode(0), "");
  std::vector<std::string> unknown = {"program", "--no-such-flag"};
  EXPECT_EXIT(Parse(unknown), ExitedWithCode(kWrongUsage), "no_such_flag");
  std::vector<std::string> wrong = {"program", "--two-words=x"};
  EXPECT_EXIT(Parse(wrong), ExitedWithCode(kWrongUsage), "two_words");
}

}  // namespace
}  // namespace tessera
