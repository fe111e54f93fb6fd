// One Extend call, as a program states it: rows of k and v that are appended to sequences on the server, and rows of q
// that attend to all that is there then.
#ifndef TESSERA_CLIENT_CPP_TESSERA_EXTEND_CALL_H_
#define TESSERA_CLIENT_CPP_TESSERA_EXTEND_CALL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tessera/v1/sequence.pb.h"

namespace tessera {

class ResidentSequence;

// What is done to one layer of one sequence. The tensors stay the caller's, as those of an AttendCall: from the start
// of the call until its end nobody changes or frees q, k, v, or touches o, lse; where the call fails, these hold
// anything. Their sizes say how many tokens there are.
struct Step {
  const ResidentSequence* sequence = nullptr;  // needed until the call has been started
  uint32_t layer = 0;
  absl::Span<const std::byte> q;  // [tokens, q_heads, head_dim] elements of the profile's dtype; empty: only appends
  absl::Span<const std::byte> k;  // [new tokens, kv_heads, head_dim]; empty: only reads
  absl::Span<const std::byte> v;  // as k
  absl::Span<std::byte> o;        // as q
  absl::Span<std::byte> lse;      // [tokens, q_heads] float32 where options.return_lse; otherwise empty
};

// Done as a whole or not at all. A sequence and layer may be named once.
struct ExtendCall {
  uint32_t q_heads = 0;                           // a multiple of the profile's kv_heads
  std::vector<Step> steps;                        // at least one, all of one server and profile
  v1::AttentionOptions options;                   // a mask that is not set is causal
  absl::Duration timeout = absl::ZeroDuration();  // from the start to the end. Zero: ClientOptions::default_timeout
};

struct ExtendReply {
  v1::ExtendResult result;  // lengths of the steps' layers afterwards, in tokens; times
  int attempts = 1;
};

// How a call ended: the server's status, or DEADLINE_EXCEEDED, CANCELLED (by CallHandle or the session's destructor,
// and by nothing else), UNAVAILABLE (connection lost, or the server cancelled the call), INVALID_ARGUMENT (the tensors
// do not fit the sequences) or INTERNAL (the server broke the protocol) from the library. With RESOURCE_EXHAUSTED,
// RetryAfter (retry_after.h) tells when to come again.
//
// A call that failed has not been done where that is the server's word on this call. After some codes this is not
// known:
// - DEADLINE_EXCEEDED, UNAVAILABLE, CANCELLED: nobody has waited for the server's word, or it was lost;
// - INTERNAL: the server may have done the call, and then have given an answer that cannot be read or does not fit it;
// - UNAUTHENTICATED, PERMISSION_DENIED, UNIMPLEMENTED, INVALID_ARGUMENT, and RESOURCE_EXHAUSTED without RetryAfter: a
//   stream that ends with one of them gives it to all of its calls.
// ResidentSequence::Get tells how long the layers are.
using ExtendCallback = std::function<void(absl::StatusOr<ExtendReply>)>;

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_EXTEND_CALL_H_
