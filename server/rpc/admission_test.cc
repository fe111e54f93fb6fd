#include "server/rpc/admission.h"

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/clock/fake_clock.h"
#include "server/rpc/recording_observer.h"
#include "server/rpc/status.h"

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
  ByteBudget budget_{10 << 10, &clock_};
  StagingPool staging_{*StagingPool::MapAnonymous(8 << 10)};
  Admission admission_{/*max_message_bytes=*/20 << 10, &budget_, &staging_, &clock_};

  absl::StatusOr<Admission::Grant> Admit(int64_t q_bytes, int64_t kv_bytes, int64_t message_bytes = 0) {
    return admission_.AdmitCall("tenant", ShapeOf(q_bytes, kv_bytes), message_bytes);
  }
  // As the RPC layer counts it.
  std::vector<RejectReason> Counted(const absl::Status& status) {
    RecordingObserver observer;
    CountEnding(status, Station::kReceive, &observer);
    return observer.rejected();
  }
};

TEST_F(AdmissionTest, CallHoldsChargeAndStagingUntilItsGrantGoes) {
  {
    absl::StatusOr<Admission::Grant> grant = Admit(1024, 512);
    ASSERT_TRUE(grant.ok()) << grant.status();
    EXPECT_EQ(grant->input.size(), 2048u);
    EXPECT_EQ(grant->output.size(), 1024u);
    EXPECT_EQ(budget_.in_use(), 3072);
    EXPECT_EQ(staging_.in_use(), 3072u);
  }
  EXPECT_EQ(budget_.in_use(), 0);
  EXPECT_EQ(staging_.in_use(), 0u);
}

TEST_F(AdmissionTest, RefusalLeavesNothingHeldAndSaysWhatIsFull) {
  const auto held = admission_.AdmitMessage("tenant", 9 << 10);
  ASSERT_TRUE(held.ok());
  const absl::Status message = admission_.AdmitMessage("tenant", 2 << 10).status();
  EXPECT_EQ(message.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Counted(message), ElementsAre(RejectReason::kByteBudget));
  const absl::Status call = Admit(1024, 512).status();
  EXPECT_EQ(call.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Counted(call), ElementsAre(RejectReason::kByteBudget));
  EXPECT_EQ(budget_.in_use(), 9 << 10);
  EXPECT_EQ(staging_.in_use(), 0u);
}

TEST_F(AdmissionTest, SumsThatNeverFitAreInvalid) {
  EXPECT_EQ(admission_.AdmitMessage("tenant", 11 << 10).status().code(), absl::StatusCode::kInvalidArgument);
  // Each fits alone: message and call in the budget, input and output in staging memory.
  EXPECT_TRUE(Admit(1024, 512, 7 << 10).ok());
  EXPECT_EQ(Admit(1024, 512, 8 << 10).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(admission_.AdmitMessage("tenant", 8 << 10, 3 << 10).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Admit(4096, 0).ok());
  EXPECT_EQ(Admit(4097, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(budget_.in_use(), 0);
  EXPECT_EQ(staging_.in_use(), 0u);
}

TEST_F(AdmissionTest, EmptySequencesAreCharged) {
  AttendShape shape;
  shape.q_lengths.resize(40);
  shape.kv_lengths.resize(40);
  const absl::StatusOr<Admission::Grant> grant = admission_.AdmitCall("tenant", shape, 0);
  ASSERT_TRUE(grant.ok()) << grant.status();
  EXPECT_GE(budget_.in_use(), static_cast<int64_t>(40 * sizeof(SequenceView)));
  EXPECT_EQ(admission_.AdmitCall("tenant", shape, 0).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(AdmissionTest, MessageAboveTheLimitIsInvalidAndNamesIt) {
  const absl::Status refused = admission_.AdmitMessage("tenant", (20 << 10) + 1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("max_message_bytes = 20480"));
  EXPECT_THAT(Counted(refused), ElementsAre(RejectReason::kInvalid));
}

TEST_F(AdmissionTest, FullStagingIsNotTheBudget) {
  absl::StatusOr<StagingBuffer> taken = staging_.Allocate(7 << 10);
  ASSERT_TRUE(taken.ok());
  const absl::Status status = Admit(1024, 512).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Counted(status), ElementsAre(RejectReason::kStaging));
  EXPECT_EQ(budget_.in_use(), 0);
}

TEST_F(AdmissionTest, ClosedRefusesCalls) {
  admission_.Close();
  const absl::Status status = Admit(256, 256).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Counted(status), ElementsAre(RejectReason::kDraining));
}

TEST_F(AdmissionTest, DrainWaitsForTheLastTicket) {
  std::optional<Admission::Grant> grant = *Admit(256, 256);
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
  const absl::StatusOr<Admission::Grant> grant = Admit(256, 256);
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
