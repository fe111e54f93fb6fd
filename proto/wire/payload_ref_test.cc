#include "proto/wire/payload_ref.h"

#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::wire {
namespace {

PayloadRef::Range Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string Copied(const PayloadRef& payload) {
  std::string copy(payload.size() + 1, '#');
  payload.CopyTo(reinterpret_cast<std::byte*>(copy.data()));
  EXPECT_EQ(copy.back(), '#') << "wrote beyond the end";
  copy.pop_back();
  return copy;
}

TEST(PayloadRefTest, JoinsRangesInOrderAndDropsEmptyOnes) {
  const std::string first = "abc", none, second = "defgh";
  PayloadRef payload;
  payload.Append(Bytes(first));
  payload.Append(Bytes(none));
  payload.Append(Bytes(second));
  EXPECT_EQ(payload.size(), 8u);
  ASSERT_EQ(payload.ranges().size(), 2u);
  EXPECT_EQ(payload.ranges()[1].data(), Bytes(second).data());
  EXPECT_EQ(Copied(payload), "abcdefgh");
}

TEST(PayloadRefTest, EverySubrangeIsThatPartOfTheBytes) {
  const std::string whole = "abcdefghij", first = "abc", second = "d", third = "efghij";
  PayloadRef payload;
  payload.Append(Bytes(first));
  payload.Append(Bytes(second));
  payload.Append(Bytes(third));
  for (size_t offset = 0; offset <= whole.size(); ++offset) {
    for (size_t length = 0; length <= whole.size() - offset; ++length) {
      EXPECT_EQ(Copied(payload.Subrange(offset, length)), whole.substr(offset, length)) << offset << " + " << length;
    }
  }
}

TEST(PayloadRefTest, CountsWhatItCopies) {
  const std::string text = "abcdef";
  PayloadRef payload;
  payload.Append(Bytes(text));
  const uint64_t before = PayloadBytesCopied();
  (void)payload.Subrange(1, 2);
  EXPECT_EQ(PayloadBytesCopied(), before);
  Copied(payload);
  EXPECT_EQ(PayloadBytesCopied(), before + 6);
}

TEST(PayloadRefTest, ClearedIsEmpty) {
  const std::string text = "abc";
  PayloadRef payload;
  payload.Append(Bytes(text));
  payload.Clear();
  EXPECT_TRUE(payload.empty());
  EXPECT_TRUE(payload.ranges().empty());
}

using PayloadRefDeathTest = ::testing::Test;

TEST(PayloadRefDeathTest, RefusesASubrangeBeyondTheEnd) {
  const std::string text = "abc";
  PayloadRef payload;
  payload.Append(Bytes(text));
  EXPECT_DEATH((void)payload.Subrange(2, 2), "outside");
  EXPECT_DEATH((void)payload.Subrange(4, 0), "outside");
  EXPECT_DEATH((void)payload.Subrange(1, SIZE_MAX), "outside");
}

}  // namespace
}  // namespace tessera::wire
