#include "server/credentials/file_watch.h"

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/credentials/file_contents.h"
#include "server/credentials/temporary_folder.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

// Two files, refused where they hold the word "bad", unless it is forgiven.
class FileWatchTest : public ::testing::Test {
 protected:
  absl::Status Take(const std::vector<std::string>& contents) {
    const std::string all = absl::StrJoin(contents, "+");
    if (!forgiven_ && absl::StrContains(all, "bad")) return absl::InvalidArgumentError("it is bad");
    taken_ = all;
    return absl::OkStatus();
  }

  const TemporaryFolder folder_;
  bool forgiven_ = false;
  std::string taken_;
  FileWatch watch_{{folder_.Write("first", "1"), folder_.Write("second", "2")},
                   [this](const std::vector<std::string>& contents) { return Take(contents); }};
};

TEST_F(FileWatchTest, ChangesAreTakenOnce) {
  ASSERT_TRUE(watch_.Load().ok());
  EXPECT_EQ(taken_, "1+2");
  EXPECT_EQ(watch_.Look(), std::nullopt);
  folder_.Write("second", "3");
  EXPECT_THAT(watch_.Look(), Optional(absl::OkStatus()));
  EXPECT_EQ(taken_, "1+3");
  EXPECT_EQ(watch_.Look(), std::nullopt);
}

TEST_F(FileWatchTest, FirstLookTellsAllErrors) {
  folder_.Write("first", "bad");
  EXPECT_EQ(watch_.Load().message(), "it is bad");
  std::filesystem::remove(folder_.Path("first"));
  EXPECT_THAT(std::string(watch_.Load().message()), HasSubstr(folder_.Path("first")));
}

TEST_F(FileWatchTest, ErrorIsToldOnceItIsFoundTwiceAndOnlyThen) {
  ASSERT_TRUE(watch_.Load().ok());
  folder_.Write("first", "bad");
  EXPECT_EQ(watch_.Look(), std::nullopt);
  EXPECT_THAT(watch_.Look(), Optional(absl::InvalidArgumentError("it is bad")));
  EXPECT_EQ(watch_.Look(), std::nullopt);
  EXPECT_EQ(taken_, "1+2");
  folder_.Write("first", "another bad");
  EXPECT_EQ(watch_.Look(), std::nullopt);
  EXPECT_NE(watch_.Look(), std::nullopt);
  EXPECT_EQ(taken_, "1+2");
}

TEST_F(FileWatchTest, FilesSeenHalfWayAreNoError) {
  ASSERT_TRUE(watch_.Load().ok());
  folder_.Write("first", "half bad");
  EXPECT_EQ(watch_.Look(), std::nullopt);
  folder_.Write("first", "good");
  EXPECT_THAT(watch_.Look(), Optional(absl::OkStatus()));
  EXPECT_EQ(taken_, "good+2");
}

TEST_F(FileWatchTest, WhatWasRefusedIsTriedAgain) {
  ASSERT_TRUE(watch_.Load().ok());
  folder_.Write("first", "bad");
  EXPECT_EQ(watch_.Look(), std::nullopt);
  EXPECT_NE(watch_.Look(), std::nullopt);
  forgiven_ = true;
  EXPECT_THAT(watch_.Look(), Optional(absl::OkStatus()));
  EXPECT_EQ(taken_, "bad+2");
}

TEST_F(FileWatchTest, MissingFileIsAnErrorAndItsReturnIsNone) {
  ASSERT_TRUE(watch_.Load().ok());
  std::filesystem::remove(folder_.Path("second"));
  EXPECT_EQ(watch_.Look(), std::nullopt);
  const std::optional<absl::Status> missing = watch_.Look();
  ASSERT_NE(missing, std::nullopt);
  EXPECT_THAT(std::string(missing->message()), HasSubstr(folder_.Path("second")));
  folder_.Write("second", "2");
  EXPECT_EQ(watch_.Look(), std::nullopt);
}

TEST(ReadCredentialFileTest, WhatIsNoSmallFileIsRefused) {
  const TemporaryFolder folder;
  EXPECT_EQ(ReadCredentialFile(folder.Path(".")).status().code(), absl::StatusCode::kInvalidArgument);
  const std::string pipe = folder.Path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ReadCredentialFile(pipe).status().code(), absl::StatusCode::kInvalidArgument);  // not waited for
  std::string large(kMaxCredentialFileBytes, 'x');
  EXPECT_EQ(ReadCredentialFile(folder.Write("large", large)).value().size(), large.size());
  large.push_back('x');
  EXPECT_EQ(ReadCredentialFile(folder.Write("large", large)).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tessera
