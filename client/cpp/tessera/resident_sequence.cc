#include "client/cpp/tessera/resident_sequence.h"

#include <utility>

#include "client/cpp/tessera/sequence_connection.h"

namespace tessera {
namespace {

using Stub = v1::SequenceService::Stub;

absl::Status Gone() {
  return absl::FailedPreconditionError("the sequence has been released, or its session has ended");
}

}  // namespace

ResidentSequence::ResidentSequence(const std::shared_ptr<SequenceConnection>& connection, std::string handle,
                                   std::shared_ptr<const v1::CacheProfile> profile)
    : connection_(connection), handle_(std::move(handle)), profile_(std::move(profile)) {
  ++connection->sequences();
}

ResidentSequence::ResidentSequence(ResidentSequence&& other) noexcept
    : connection_(std::move(other.connection_)), handle_(std::exchange(other.handle_, {})), profile_(other.profile_) {}

ResidentSequence& ResidentSequence::operator=(ResidentSequence&& other) noexcept {
  std::swap(connection_, other.connection_);
  std::swap(handle_, other.handle_);
  std::swap(profile_, other.profile_);
  return *this;
}

ResidentSequence::~ResidentSequence() {
  const std::shared_ptr<SequenceConnection> connection = handle_.empty() ? nullptr : connection_.lock();
  if (connection == nullptr) return;
  --connection->sequences();
  connection->ReleaseSoon(handle_);
}

absl::StatusOr<ResidentSequence> ResidentSequence::Fork(std::optional<uint64_t> length, absl::Duration timeout) const {
  const std::shared_ptr<SequenceConnection> connection = handle_.empty() ? nullptr : connection_.lock();
  if (connection == nullptr) return Gone();
  v1::ForkSequenceRequest request;
  request.set_sequence(handle_);
  if (length.has_value()) request.set_length(*length);
  v1::ForkSequenceResponse response;
  const absl::Status status =
      connection->AskPatiently(&Stub::ForkSequence, request, connection->DeadlineAfter(timeout), &response);
  if (!status.ok()) return status;
  return ResidentSequence(connection, response.sequence(), profile_);
}

absl::Status ResidentSequence::Truncate(uint64_t length, absl::Duration timeout) const {
  const std::shared_ptr<SequenceConnection> connection = handle_.empty() ? nullptr : connection_.lock();
  if (connection == nullptr) return Gone();
  v1::TruncateSequenceRequest request;
  request.set_sequence(handle_);
  request.set_length(length);
  v1::TruncateSequenceResponse response;
  return connection->Ask(&Stub::TruncateSequence, request, connection->DeadlineAfter(timeout), &response);
}

absl::StatusOr<v1::GetSequenceResponse> ResidentSequence::Get(absl::Duration timeout) const {
  const std::shared_ptr<SequenceConnection> connection = handle_.empty() ? nullptr : connection_.lock();
  if (connection == nullptr) return Gone();
  v1::GetSequenceRequest request;
  request.set_sequence(handle_);
  v1::GetSequenceResponse response;
  const absl::Status status =
      connection->Ask(&Stub::GetSequence, request, connection->DeadlineAfter(timeout), &response);
  if (!status.ok()) return status;
  return response;
}

std::string ResidentSequence::Detach() {
  if (const std::shared_ptr<SequenceConnection> connection = connection_.lock(); !handle_.empty() && connection) {
    --connection->sequences();
  }
  return std::exchange(handle_, {});
}

absl::Status ResidentSequence::Release(absl::Duration timeout) {
  const std::shared_ptr<SequenceConnection> connection = handle_.empty() ? nullptr : connection_.lock();
  if (connection == nullptr) return absl::OkStatus();
  --connection->sequences();
  v1::ReleaseSequencesRequest request;
  request.add_sequences(std::exchange(handle_, {}));
  v1::ReleaseSequencesResponse response;
  return connection->Ask(&Stub::ReleaseSequences, request, connection->DeadlineAfter(timeout), &response);
}

}  // namespace tessera
