// A sequence whose keys and values stay on the server.
#ifndef TESSERA_CLIENT_CPP_TESSERA_RESIDENT_SEQUENCE_H_
#define TESSERA_CLIENT_CPP_TESSERA_RESIDENT_SEQUENCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tessera/v1/sequence.pb.h"

namespace tessera {

class SequenceConnection;

// Made by SequenceSession::Create and Attach, and by Fork. Stays on its server and on its connection. Movable, not
// copyable; moving aside, threads may share it.
//
// It lives on the server until it is released, or has not been used for its profile's lease_ms: every use renews the
// lease. What is not there any more gives NOT_FOUND.
//
// The calls below wait for the answer. Timeouts are from the start to the end; zero: ClientOptions::default_timeout.
class ResidentSequence {
 public:
  ResidentSequence(ResidentSequence&& other) noexcept;
  ResidentSequence& operator=(ResidentSequence&& other) noexcept;
  // Releases without waiting, unless Release or Detach has let go of it. Does nothing where the session has gone: the
  // lease ends it then. REQUIRES, as do the calls below: not at the same time as the session's destructor.
  ~ResidentSequence();

  // Empty once released, detached, or moved from.
  const std::string& handle() const { return handle_; }
  const v1::CacheProfile& profile() const { return *profile_; }

  // A new sequence that begins as this one, or as its first `length` tokens, and shares its memory until one of them is
  // written. On the same connection. ABORTED while a call appends.
  absl::StatusOr<ResidentSequence> Fork(std::optional<uint64_t> length = std::nullopt,
                                        absl::Duration timeout = absl::ZeroDuration()) const;

  // Keeps the first `length` tokens of every layer. ABORTED while a call uses the sequence.
  absl::Status Truncate(uint64_t length, absl::Duration timeout = absl::ZeroDuration()) const;

  // How long each layer is, and for how long the sequence will be there. Renews the lease.
  absl::StatusOr<v1::GetSequenceResponse> Get(absl::Duration timeout = absl::ZeroDuration()) const;

  // Ends the sequence. Calls under way on it are finished first. OK where it is not there any more. It is empty then,
  // whatever came of it.
  absl::Status Release(absl::Duration timeout = absl::ZeroDuration());

  // Lets go of the sequence, which goes on, and returns its handle: whoever has that next, in this program or another,
  // takes it up by SequenceSession::Attach within its lease. It is empty then.
  std::string Detach();

 private:
  friend class SequenceSession;
  ResidentSequence(const std::shared_ptr<SequenceConnection>& connection, std::string handle,
                   std::shared_ptr<const v1::CacheProfile> profile);

  std::weak_ptr<SequenceConnection> connection_;  // expires with the session
  std::string handle_;
  std::shared_ptr<const v1::CacheProfile> profile_;
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_RESIDENT_SEQUENCE_H_
