#include "server/rpc/outbox.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// An answer that shares a call with `owner`, of which nothing but the end is looked at.
StreamAnswer Failed(uint64_t id, const std::shared_ptr<int>& owner) {
  return {.id = id, .status = absl::NotFoundError(""), .call = std::shared_ptr<StreamCall>(owner, nullptr)};
}

// An outbox is used with a stream's lock held, and a call's end may want that lock, or be long.
TEST(OutboxTest, CallsLeaveItAlive) {
  const auto owner = std::make_shared<int>();
  Outbox outbox(1024);
  outbox.Push(Failed(1, owner), absl::ZeroDuration());
  outbox.Push(Failed(2, owner), absl::ZeroDuration());
  EXPECT_EQ(owner.use_count(), 3);
  const Outbox::Message message = outbox.Pop();
  EXPECT_EQ(owner.use_count(), 3);
  EXPECT_FALSE(message.ended.has_value());
  const std::vector<StreamAnswer> rest = outbox.Clear();
  EXPECT_EQ(owner.use_count(), 3);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].id, 2u);
  EXPECT_TRUE(outbox.empty());
  EXPECT_EQ(outbox.bytes(), 0);
}

}  // namespace
}  // namespace tessera
