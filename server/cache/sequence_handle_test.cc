#include "server/cache/sequence_handle.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(SequenceHandleTest, ComesBackFromItsBytes) {
  const SequenceHandle handle{
      .epoch = 0x0102030405060708, .slot = 0xa1a2a3a4, .generation = 0xb1b2b3b4, .secret = 0xf1f2f3f4f5f6f7f8};
  const std::string bytes = handle.Encode();
  EXPECT_EQ(bytes.size(), SequenceHandle::kBytes);
  EXPECT_EQ(bytes[0], 0x08) << "little-endian";
  EXPECT_EQ(SequenceHandle::Decode(bytes), handle);
}

TEST(SequenceHandleTest, OtherLengthsAreNoHandles) {
  const std::string bytes = SequenceHandle{}.Encode();
  EXPECT_FALSE(SequenceHandle::Decode("").has_value());
  EXPECT_FALSE(SequenceHandle::Decode(bytes.substr(1)).has_value());
  EXPECT_FALSE(SequenceHandle::Decode(bytes + "x").has_value());
}

TEST(SecretSourceTest, NeverRepeats) {
  SecretSource secrets, others;
  std::set<uint64_t> drawn;
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(drawn.insert(secrets.Draw()).second);
    EXPECT_TRUE(drawn.insert(others.Draw()).second);
  }
}

}  // namespace
}  // namespace tessera
