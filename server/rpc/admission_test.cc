#include "server/rpc/admission.h"

#include <optional>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/clock/fake_clock.h"
#include "server/rpc/recording_observer.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

AttendShape ShapeOf(int64_t q_bytes, int64_t kv_bytes) {
  AttendShape shape;
  shape.q_bytes = q_bytes;
  shape.kv_bytes = kv_bytes;
  return shape;
}

class AdmissionTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  RecordingObserver observer_;
  ByteBudget budget_{10 << 10};
  StagingPool staging_{*StagingPool::MapAnonymous(8 << 10)};
  Admission admission_{&budget_, &staging_, &clock_, &observer_};
};

TEST_F(AdmissionTest, CallHoldsChargeAndStagingUntilItsGrantGoes) {
  {
    absl::StatusOr<Admission::Grant> grant = admission_.AdmitCall(ShapeOf(1024, 512));
    ASSERT_TRUE(grant.ok()) << grant.status();
    EXPECT_EQ(grant->input.size(), 2048u);
    EXPECT_EQ(grant->output.size(), 1024u);
    EXPECT_EQ(budget_.in_use(), 3072);
    EXPECT_EQ(staging_.in_use(), 3072u);
  }
  EXPECT_EQ(budget_.in_use(), 0);
  EXPECT_EQ(staging_.in_use(), 0u);
}

TEST_F(AdmissionTest, RefusalLeavesNothingHeldAndIsCountedByReason) {
  const auto held = admission_.AdmitMessage(9 << 10);
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(admission_.AdmitMessage(2 << 10).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(admission_.AdmitCall(ShapeOf(1024, 512)).status().code(), absl::StatusCode::kResourceExhausted);
  // More than the budget will ever give.
  EXPECT_EQ(admission_.AdmitMessage(11 << 10).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(observer_.rejected(),
              ElementsAre(RejectReason::kByteBudget, RejectReason::kByteBudget, RejectReason::kInvalid));
  EXPECT_EQ(budget_.in_use(), 9 << 10);
  EXPECT_EQ(staging_.in_use(), 0u);
}

TEST_F(AdmissionTest, FullStagingIsNotTheBudget) {
  absl::StatusOr<StagingBuffer> taken = staging_.Allocate(7 << 10);
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(admission_.AdmitCall(ShapeOf(1024, 512)).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(observer_.rejected(), ElementsAre(RejectReason::kStaging));
  EXPECT_EQ(budget_.in_use(), 0);
}

TEST_F(AdmissionTest, ClosedRefusesCalls) {
  admission_.Close();
  EXPECT_EQ(admission_.AdmitCall(ShapeOf(256, 256)).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(observer_.rejected(), ElementsAre(RejectReason::kDraining));
}

TEST_F(AdmissionTest, DrainWaitsForTheLastTicket) {
  std::optional<Admission::Grant> grant = *admission_.AdmitCall(ShapeOf(256, 256));
  admission_.Close();
  const absl::Time deadline = clock_.Now() + absl::Seconds(5);
  bool drained = false;
  std::thread waiter([&] { drained = admission_.Drain(deadline); });
  clock_.AwaitWaiter(deadline);
  // Memory may go before the ticket does.
  Admission::Ticket ticket = std::move(grant->ticket);
  grant.reset();
  EXPECT_EQ(budget_.in_use(), 0);
  ticket = Admission::Ticket();
  waiter.join();
  EXPECT_TRUE(drained);
}

TEST_F(AdmissionTest, DrainGivesUpAtItsDeadline) {
  const absl::StatusOr<Admission::Grant> grant = admission_.AdmitCall(ShapeOf(256, 256));
  admission_.Close();
  const absl::Time deadline = clock_.Now() + absl::Seconds(5);
  bool drained = true;
  std::thread waiter([&] { drained = admission_.Drain(deadline); });
  clock_.AwaitWaiter(deadline);
  clock_.Advance(absl::Seconds(5));
  waiter.join();
  EXPECT_FALSE(drained);
}

}  // namespace
}  // namespace tessera
