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

TEST(StatusTest, RetryAfterGoesWithResourceExhaustedAloneAndIsNeverZero) {
  EXPECT_EQ(ToCallStatus(absl::ResourceExhaustedError(""), absl::Milliseconds(25)).retry_after_ms(), 25u);
  EXPECT_EQ(ToCallStatus(absl::ResourceExhaustedError(""), absl::Microseconds(1)).retry_after_ms(), 1u);
  EXPECT_EQ(ToCallStatus(absl::UnavailableError(""), absl::Milliseconds(25)).retry_after_ms(), 0u);
  EXPECT_EQ(ToCallStatus(absl::OkStatus(), absl::Milliseconds(25)).retry_after_ms(), 0u);
}

TEST(StatusTest, EndingsAreCountedOnceUnderTheirOwnName) {
  RecordingObserver observer;
  CountEnding(absl::DeadlineExceededError(""), Station::kQueue, &observer);
  CountEnding(absl::CancelledError(""), Station::kRun, &observer);
  CountEnding(absl::ResourceExhaustedError(""), Station::kReceive, &observer);
  CountEnding(absl::ResourceExhaustedError(""), Station::kRun, &observer);
  CountEnding(absl::UnavailableError(""), Station::kRun, &observer);
  CountEnding(absl::OkStatus(), Station::kRun, &observer);
  CountEnding(absl::InternalError(""), Station::kRun, &observer);
  EXPECT_THAT(observer.expired(), ElementsAre(Station::kQueue));
  EXPECT_THAT(observer.cancelled(), ElementsAre(Station::kRun));
  EXPECT_THAT(observer.rejected(), ElementsAre(RejectReason::kDeviceMemory, RejectReason::kDraining));
}

TEST(StatusTest, FullQueueIsCountedWhereItRefuses) {
  RecordingObserver observer;
  CountNotQueued(absl::ResourceExhaustedError(""), &observer);
  CountNotQueued(absl::UnavailableError(""), &observer);
  CountNotQueued(absl::DeadlineExceededError(""), &observer);
  EXPECT_THAT(observer.rejected(), ElementsAre(RejectReason::kQueue));
}

}  // namespace
}  // namespace tessera
