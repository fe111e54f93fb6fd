#include "server/credentials/token_table.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kMaxTenantBytes = 8;

std::string Hex(absl::string_view token) {
  const TokenDigest digest = DigestOf(token);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

TEST(TokenTableTest, DigestIsSha256) {
  // printf abc | sha256sum
  EXPECT_EQ(Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(TokenTableTest, FindsTheTenantOfEachToken) {
  const absl::StatusOr<TokenTable> table =
      TokenTable::Parse(absl::StrCat("# who may call\n\na ", Hex("one"), "\r\n  b\t", absl::AsciiStrToUpper(Hex("two")),
                                     "  \na ", Hex("three")),
                        kMaxTenantBytes);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->size(), 3u);
  ASSERT_NE(table->Find("one"), nullptr);
  EXPECT_EQ(*table->Find("one"), "a");
  ASSERT_NE(table->Find("two"), nullptr);
  EXPECT_EQ(*table->Find("two"), "b");
  ASSERT_NE(table->Find("three"), nullptr);
  EXPECT_EQ(*table->Find("three"), "a");
  EXPECT_EQ(table->Find("four"), nullptr);
  EXPECT_EQ(table->Find(""), nullptr);
  EXPECT_EQ(table->Find(Hex("one")), nullptr);
}

TEST(TokenTableTest, RefusalNamesTheLineAndQuotesNothing) {
  const std::string good = absl::StrCat("a ", Hex("one"), "\n");
  for (const std::string& bad : {
           std::string("secret"),
           std::string("a secret"),
           absl::StrCat("a ", Hex("two"), " secret"),
           absl::StrCat("a ", Hex("two"), "0"),
           absl::StrCat("a ", Hex("two").substr(1), "g"),
           absl::StrCat("secret789 ", Hex("two")),
           absl::StrCat("secr\x01t ", Hex("two")),
           absl::StrCat("b ", Hex("one")),
       }) {
    const absl::StatusOr<TokenTable> table = TokenTable::Parse(good + bad, kMaxTenantBytes);
    ASSERT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(table.status().message()), HasSubstr("line 2"));
    EXPECT_THAT(std::string(table.status().message()), Not(HasSubstr("secr")));
  }
}

TEST(TokenTableTest, FileThatNamesNoTokenIsRefused) {
  EXPECT_EQ(TokenTable::Parse("", kMaxTenantBytes).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TokenTable::Parse("# none\n", kMaxTenantBytes).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TokensTest, LastTableIsInForce) {
  Tokens tokens;
  EXPECT_EQ(tokens.TenantOf("one"), std::nullopt);
  const uint64_t version = tokens.version();
  tokens.Replace(*TokenTable::Parse("a " + Hex("one"), kMaxTenantBytes));
  EXPECT_NE(tokens.version(), version);
  EXPECT_EQ(tokens.TenantOf("one"), "a");
  tokens.Replace(*TokenTable::Parse("b " + Hex("two"), kMaxTenantBytes));
  EXPECT_EQ(tokens.TenantOf("one"), std::nullopt);
  EXPECT_EQ(tokens.TenantOf("two"), "b");
}

}  // namespace
}  // namespace tessera
