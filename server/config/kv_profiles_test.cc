#include "server/config/kv_profiles.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(KvProfilesTest, EveryFieldIsRead) {
  const auto profiles = ParseCacheProfiles(
      "name=a,layers=8,kv_heads=4,head_dim=64,dtype=float16,page_tokens=32,pages=100,host_pages=7,max_tokens=5000,max_"
      "sequences=7,"
      "tenant_share=0.5,lease=90s; name=b, pages=3");
  ASSERT_TRUE(profiles.ok()) << profiles.status();
  ASSERT_EQ(profiles->size(), 2u);
  const CacheProfile& a = (*profiles)[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.layers, 8);
  EXPECT_EQ(a.kv_heads, 4);
  EXPECT_EQ(a.head_dim, 64);
  EXPECT_EQ(a.dtype, DType::kFloat16);
  EXPECT_EQ(a.page_tokens, 32);
  EXPECT_EQ(a.pages, 100);
  EXPECT_EQ(a.host_pages, 7);
  EXPECT_EQ(a.max_tokens, 5000);
  EXPECT_EQ(a.max_sequences, 7);
  EXPECT_EQ(a.tenant_share, 0.5);
  EXPECT_EQ(a.lease, absl::Seconds(90));
  EXPECT_EQ((*profiles)[1].name, "b");
  EXPECT_EQ((*profiles)[1].pages, 3);
  EXPECT_EQ((*profiles)[1].page_tokens, CacheProfile().page_tokens);
}

TEST(KvProfilesTest, NamesGoIntoMessagesAndLabels) {
  CacheProfile profile{.name = "a profile, \"small\"", .pages = 1};
  EXPECT_TRUE(Validate(profile).ok());
  profile.name = std::string(64, 'a');
  EXPECT_TRUE(Validate(profile).ok());
  for (const std::string& name : {std::string(), std::string("\xff\xfe"), std::string("a\nb"), std::string(65, 'a'),
                                  std::string(1 << 20, '\xff')}) {
    profile.name = name;
    const absl::Status status = Validate(profile);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    // What is refused goes into a line of the log.
    EXPECT_LT(status.message().size(), 400u);
    EXPECT_TRUE(std::all_of(status.message().begin(), status.message().end(), absl::ascii_isprint)) << status;
  }
}

TEST(KvProfilesTest, ScalesOfFloat8AreAFile) {
  const std::string path = ::testing::TempDir() + "/kv_profiles_test.scales";
  std::ofstream(path) << "0.5 1 2e-3\n4\n";
  const auto profiles = ParseCacheProfiles("name=a,kv_heads=2,pages=1,kv_dtype=float8_e4m3,kv_scales=" + path);
  ASSERT_TRUE(profiles.ok()) << profiles.status();
  CacheProfile profile = profiles->front();
  EXPECT_EQ(profile.kv_dtype(), CacheDType::kFloat8);
  EXPECT_THAT(profile.kv_scales, ::testing::ElementsAre(0.5f, 1.0f, 2e-3f, 4.0f));
  EXPECT_TRUE(Validate(profile).ok());
  EXPECT_EQ(profile.page_bytes(), 2 * profile.page_tokens * 2 * 128);

  profile.layers = 2;
  EXPECT_TRUE(absl::StrContains(Validate(profile).message(), "kv_scales: 4 scales, of")) << Validate(profile);
  profile.layers = 1;
  profile.kv_scales[3] = 0;
  EXPECT_TRUE(absl::StrContains(Validate(profile).message(), "kv_scales: 0 is not")) << Validate(profile);
  profile.kv_scales[3] = 1;
  profile.float8 = false;
  EXPECT_TRUE(absl::StrContains(Validate(profile).message(), "only fp8")) << Validate(profile);

  std::ofstream(path) << "1 2 three 4";
  EXPECT_FALSE(ParseCacheProfiles("name=a,kv_scales=" + path).ok());
  std::filesystem::remove(path);
  EXPECT_FALSE(ParseCacheProfiles("name=a,kv_scales=" + path).ok());
}

TEST(KvProfilesTest, FilesOfScalesHaveAnEnd) {
  EXPECT_FALSE(ParseCacheProfiles("name=a,kv_scales=/dev/zero").ok());
  const std::string path = ::testing::TempDir() + "/kv_profiles_test.long";
  const auto accepted = [&path](const std::string& text) {
    std::ofstream(path) << text;
    return ParseCacheProfiles("name=a,kv_scales=" + path).ok();
  };
  EXPECT_TRUE(accepted(std::string(255, '1')));
  EXPECT_FALSE(accepted(std::string(300, '1'))) << "a number is not two";
  std::string most;
  for (int i = 0; i < 1 << 21; ++i) most += "1 ";
  EXPECT_TRUE(accepted(most));
  EXPECT_FALSE(accepted(most + "1"));
}

TEST(KvProfilesTest, NothingIsNoProfile) {
  const auto profiles = ParseCacheProfiles("");
  ASSERT_TRUE(profiles.ok());
  EXPECT_TRUE(profiles->empty());
}

TEST(KvProfilesTest, WhatDoesNotParseIsNamed) {
  for (const char* text : {"name=a,pages", "name=a,pages=x", "name=a,page=3", "name=a,dtype=fp4", "name=a,lease=5",
                           "name=a,kv_dtype=float16", "name=a,,pages=3", "name=a,kv_heads=99999999999"}) {
    const absl::Status status = ParseCacheProfiles(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_TRUE(absl::StrContains(status.message(), "kv_profiles: profile 0")) << status;
  }
  const absl::Status status = ParseCacheProfiles(std::string(1 << 20, '\xff')).status();
  EXPECT_LT(status.message().size(), 1000u);
  EXPECT_TRUE(std::all_of(status.message().begin(), status.message().end(), absl::ascii_isprint)) << status;
}

}  // namespace
}  // namespace tessera
