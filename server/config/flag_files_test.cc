#include "server/config/flag_files.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/flag_files_test_", name);
  std::ofstream(path) << text;
  return path;
}

std::string Refused(const std::vector<std::string>& arguments) {
  const absl::StatusOr<std::vector<std::string>> expanded = ExpandFlagFiles(arguments);
  EXPECT_EQ(expanded.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(expanded.status().message());
}

TEST(FlagFilesTest, FlagsStandWhereTheirFileIsNamed) {
  const std::string inner = WriteFile("inner", "--c=3");
  const std::string outer = WriteFile("outer", "# first\n--b=2 x\n\n  -flagfile=" + inner + " \r\n\t--d-e=#4\n");
  const absl::StatusOr<std::vector<std::string>> expanded = ExpandFlagFiles(
      {"--flagfile=program", "--a", "--flagfile=" + outer, "-flagfile", inner, "word", "--", "--flagfile=" + inner});
  ASSERT_TRUE(expanded.ok()) << expanded.status();
  EXPECT_THAT(*expanded, ElementsAre("--flagfile=program", "--a", "--b=2 x", "--c=3", "--d-e=#4", "--c=3", "word", "--",
                                     "--flagfile=" + inner));
  EXPECT_THAT(*ExpandFlagFiles({"program", "--flagfile=" + inner + "," + inner}),
              ElementsAre("program", "--c=3", "--c=3"));
}

TEST(FlagFilesTest, FilesThatCannotBeReadAreRefusedByName) {
  EXPECT_THAT(Refused({"program", "--flagfile=/no/such/file"}),
              AllOf(HasSubstr("/no/such/file"), HasSubstr("No such")));
  EXPECT_THAT(Refused({"program", "--flagfile", ::testing::TempDir()}),
              AllOf(HasSubstr(::testing::TempDir()), HasSubstr("directory")));
  EXPECT_THAT(Refused({"program", "--flagfile="}), HasSubstr("flagfile"));
  EXPECT_THAT(Refused({"program", "--flagfile"}), HasSubstr("no value"));
  EXPECT_THAT(Refused({"program", "--flagfile=/dev/zero"}), AllOf(HasSubstr("/dev/zero"), HasSubstr("larger")));
}

TEST(FlagFilesTest, LinesThatAreNoFlagsAreRefusedByNumber) {
  for (const char* line : {"listen=1", "--", "-", "x"}) {
    const std::string path = WriteFile("lines", absl::StrCat("# comment\n", line, "\n"));
    EXPECT_THAT(Refused({"program", "--flagfile=" + path}), AllOf(HasSubstr(path), HasSubstr("line 2"))) << line;
  }
}

TEST(FlagFilesTest, FilesThatNameThemselvesEndTheStart) {
  const std::string self = WriteFile("self", "");
  WriteFile("self", "--a=1\n--flagfile=" + self + "\n--flagfile=" + self + "\n");
  EXPECT_THAT(Refused({"program", "--flagfile=" + self}), AllOf(HasSubstr(self), HasSubstr("itself")));
}

TEST(FlagFilesTest, TheEnvironmentNamesNoFiles) {
  EXPECT_THAT(Refused({"program", "--fromenv=listen,flagfile"}), HasSubstr("fromenv"));
  EXPECT_THAT(Refused({"program", "-tryfromenv", "flagfile"}), HasSubstr("tryfromenv"));
  EXPECT_THAT(*ExpandFlagFiles({"program", "--fromenv", "listen"}), ElementsAre("program", "--fromenv", "listen"));
}

}  // namespace
}  // namespace tessera
