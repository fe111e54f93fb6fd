#include "server/rpc/status.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/recording_observer.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StatusTest, CodesAndMessagesArePassedOn) {
  const grpc::Status status = ToGrpcStatus(absl::ResourceExhaustedError("full"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "full");
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
}

TEST(StatusTest, LongMessagesAreCut) {
  const absl::Status status = absl::InvalidArgumentError(std::string(100000, 'x'));
  EXPECT_EQ(ToGrpcStatus(status).error_message().size(), kMaxStatusMessageBytes);
  EXPECT_EQ(ToCallStatus(status, absl::ZeroDuration()).message().size(), kMaxStatusMessageBytes);
}

TEST(StatusTest, RetryAfterIsRoundedUpAndGoesWithErrorsAlone) {
  EXPECT_EQ(ToCallStatus(absl::ResourceExhaustedError(""), absl::Milliseconds(25)).retry_after_ms(), 25u);
  EXPECT_EQ(ToCallStatus(absl::ResourceExhaustedError(""), absl::Microseconds(1)).retry_after_ms(), 1u);
  EXPECT_EQ(ToCallStatus(absl::UnavailableError(""), absl::Milliseconds(25)).retry_after_ms(), 25u);
  EXPECT_EQ(ToCallStatus(absl::UnavailableError(""), absl::ZeroDuration()).retry_after_ms(), 0u);
  EXPECT_EQ(ToCallStatus(absl::OkStatus(), absl::Milliseconds(25)).retry_after_ms(), 0u);
}

TEST(StatusTest, EndingsAreCountedOnceUnderTheirOwnName) {
  RecordingObserver observer;
  CountEnding(absl::DeadlineExceededError(""), Station::kQueue, &observer);
  CountEnding(absl::CancelledError(""), Station::kRun, &observer);
  CountEnding(WithReason(absl::ResourceExhaustedError(""), RejectReason::kQueue), Station::kReceive, &observer);
  CountEnding(absl::InvalidArgumentError(""), Station::kReceive, &observer);
  CountEnding(absl::ResourceExhaustedError(""), Station::kRun, &observer);
  CountEnding(absl::UnavailableError(""), Station::kRun, &observer);
  CountEnding(absl::OkStatus(), Station::kRun, &observer);
  EXPECT_THAT(observer.expired(), ElementsAre(Station::kQueue));
  EXPECT_THAT(observer.cancelled(), ElementsAre(Station::kRun));
  EXPECT_THAT(observer.rejected(), ElementsAre(RejectReason::kQueue, RejectReason::kInvalid,
                                               RejectReason::kDeviceMemory, RejectReason::kDraining));
}

TEST(StatusTest, EveryCodeButOkIsInOneOfTheThreeCounters) {
  for (int code = 1; code <= 16; ++code) {
    RecordingObserver observer;
    CountEnding(absl::Status(static_cast<absl::StatusCode>(code), ""), Station::kRun, &observer);
    EXPECT_EQ(observer.expired().size() + observer.cancelled().size() + observer.rejected().size(), 1u) << code;
  }
  RecordingObserver observer;
  CountEnding(absl::NotFoundError(""), Station::kReceive, &observer);
  CountEnding(absl::AbortedError(""), Station::kQueue, &observer);
  CountEnding(absl::FailedPreconditionError(""), Station::kReceive, &observer);
  CountEnding(absl::UnimplementedError(""), Station::kRun, &observer);
  CountEnding(absl::InternalError(""), Station::kRun, &observer);
  EXPECT_THAT(observer.rejected(),
              ElementsAre(RejectReason::kNotFound, RejectReason::kConflict, RejectReason::kPrecondition,
                          RejectReason::kPrecondition, RejectReason::kInternal));
}

TEST(StatusTest, ACallThatLosesItsTokenIsNotCountedAsDraining) {
  RecordingObserver observer;
  const absl::Status status = TokenGone("come again");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  CountEnding(status, Station::kRun, &observer);
  EXPECT_THAT(observer.rejected(), ElementsAre(RejectReason::kToken));
  EXPECT_EQ(RetryAfter(status, absl::Milliseconds(1)), kDrainRetry);
}

TEST(StatusTest, ReasonsAreForWantOfRoomAlone) {
  EXPECT_EQ(WithReason(absl::OkStatus(), RejectReason::kQueue), absl::OkStatus());
  EXPECT_EQ(WithReason(absl::InvalidArgumentError("x"), RejectReason::kQueue), absl::InvalidArgumentError("x"));
}

TEST(StatusTest, FullMemoryAsksForMoreThanTheTimeOfAnEmptyQueue) {
  const absl::Status full = absl::ResourceExhaustedError("");
  for (const RejectReason reason :
       {RejectReason::kByteBudget, RejectReason::kStaging, RejectReason::kDeviceMemory, RejectReason::kStreamCalls}) {
    EXPECT_EQ(RetryAfter(WithReason(full, reason), absl::Milliseconds(1)), kMemoryRetry);
    EXPECT_EQ(RetryAfter(WithReason(full, reason), absl::Seconds(1)), absl::Seconds(1));
  }
  EXPECT_EQ(RetryAfter(full, absl::Milliseconds(1)), kMemoryRetry) << "the device's";
  EXPECT_EQ(RetryAfter(WithReason(full, RejectReason::kQueue), absl::Milliseconds(1)), absl::Milliseconds(1));
  EXPECT_EQ(RetryAfter(WithReason(full, RejectReason::kStripes), absl::Milliseconds(1)), kStripeRetry);
  EXPECT_EQ(RetryAfter(WithReason(full, RejectReason::kStripes), absl::Seconds(1)), absl::Seconds(1));
}

TEST(StatusTest, OnlyWhatMayBeTriedAgainSaysWhen) {
  EXPECT_EQ(RetryAfter(absl::UnavailableError("draining"), absl::Milliseconds(1)), kDrainRetry);
  EXPECT_EQ(RetryAfter(absl::InvalidArgumentError(""), absl::Seconds(1)), absl::ZeroDuration());
  EXPECT_EQ(RetryAfter(absl::CancelledError(""), absl::Seconds(1)), absl::ZeroDuration());
  EXPECT_EQ(RetryAfter(absl::OkStatus(), absl::Seconds(1)), absl::ZeroDuration());
}

}  // namespace
}  // namespace tessera
