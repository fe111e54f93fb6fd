#include "server/process/library_log.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "grpc/grpc.h"
#include "grpcpp/version_info.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tessera/v1/sequence.pb.h"

#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65
#include "grpc/support/log.h"
#define TESSERA_LOG_AS_GRPC(text) gpr_log(GPR_ERROR, "%s", text)
#else
#include "absl/log/log.h"
#define TESSERA_LOG_AS_GRPC(text) LOG(ERROR) << (text)
#endif

namespace tessera {
namespace {

TEST(LibraryLogTest, EveryLineIsOneObjectWhateverAClientPutsIntoIt) {
  RouteLibraryLogs();
  grpc_init();  // until then it logs nothing
  const std::string hostile = "a \"quote\", a \\ and\n{\"level\":\"info\",\"event\":\"forged\"}\n\xff\x01";
  ::testing::internal::CaptureStderr();
  TESSERA_LOG_AS_GRPC(hostile.c_str());
  TESSERA_LOG_AS_GRPC(std::string(100000, 'x').c_str());
  FlushLog();
  const std::vector<std::string> lines =
      absl::StrSplit(::testing::internal::GetCapturedStderr(), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 2u);
  for (const std::string& line : lines) {
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(object.is_object()) << line;
    EXPECT_EQ(object["event"], "grpc");
    EXPECT_EQ(object["level"], "error");
    EXPECT_EQ(object["file"], "library_log_test.cc");
    EXPECT_LE(object["message"].get<std::string>().size(), kMaxLibraryMessageBytes);
  }
  EXPECT_NE(lines[0].find("forged"), std::string::npos);
  grpc_shutdown();
}

TEST(LibraryLogTest, WhatProtobufSaysOfTextThatIsNotUtf8IsAnObjectToo) {
  RouteLibraryLogs();
  v1::CreateSequencesRequest request;  // its field 1 is a string
  ::testing::internal::CaptureStderr();
  request.ParseFromString("\x0a\x04\xff\xfe\"\n");
  FlushLog();
  const std::vector<std::string> lines =
      absl::StrSplit(::testing::internal::GetCapturedStderr(), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 1u);
  const nlohmann::json object = nlohmann::json::parse(lines.front(), nullptr, false);
  ASSERT_TRUE(object.is_object()) << lines.front();
  EXPECT_EQ(object["event"], "protobuf");
  EXPECT_EQ(object["level"], "error");
  EXPECT_NE(object["message"].get<std::string>().find("invalid UTF-8"), std::string::npos) << lines.front();
}

TEST(LineQuotaTest, SoManyLinesOfEachLevelPassInASecond) {
  LineQuota quota;
  const absl::Time start = absl::UnixEpoch();
  for (int64_t i = 0; i < LineQuota::kLinesPerSecond; ++i) EXPECT_EQ(quota.Take(LogLevel::kError, start), 0);
  const absl::Time late = start + absl::Seconds(1) - absl::Nanoseconds(1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(quota.Take(LogLevel::kError, late), std::nullopt);
  EXPECT_EQ(quota.Take(LogLevel::kInfo, late), 0);
  EXPECT_EQ(quota.Take(LogLevel::kError, start + absl::Seconds(1)), 3) << "what was left out is told";
  EXPECT_EQ(quota.Take(LogLevel::kError, start + absl::Seconds(1)), 0) << "once";
}

TEST(LineQuotaTest, TimeThatIsSetBackDoesNotSilenceIt) {
  LineQuota quota;
  const absl::Time start = absl::UnixEpoch() + absl::Hours(1);
  for (int64_t i = 0; i < LineQuota::kLinesPerSecond; ++i) EXPECT_EQ(quota.Take(LogLevel::kError, start), 0);
  EXPECT_EQ(quota.Take(LogLevel::kError, start - absl::Minutes(30)), 0);
}

}  // namespace
}  // namespace tessera
