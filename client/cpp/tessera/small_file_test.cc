#include "client/cpp/tessera/small_file.h"

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

TEST(SmallFileTest, IsReadWhole) {
  const std::string path = absl::StrCat(testing::TempDir(), "/small_file_test");
  const std::string contents("a\n\0\xff", 4);
  std::ofstream(path, std::ios::binary) << contents;
  EXPECT_EQ(*ReadSmallFile(path), contents);
}

TEST(SmallFileTest, WhatIsNoFileOrEmptyIsInvalid) {
  const std::string empty = absl::StrCat(testing::TempDir(), "/small_file_test_empty");
  std::ofstream(empty, std::ios::binary).flush();
  for (const std::string& path : {empty, std::string("/no/such/file"), testing::TempDir()}) {
    const absl::Status status = ReadSmallFile(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
}

}  // namespace
}  // namespace tessera
