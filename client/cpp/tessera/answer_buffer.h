// o and LSE of one call, in the caller's memory, as the places that answers are written to.
#ifndef TESSERA_CLIENT_CPP_TESSERA_ANSWER_BUFFER_H_
#define TESSERA_CLIENT_CPP_TESSERA_ANSWER_BUFFER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/wire/payload_ref.h"
#include "tessera/v1/attention.pb.h"

namespace tessera {

// Writes to parts that do not overlap may run at the same time.
class AnswerBuffer {
 public:
  AnswerBuffer(absl::Span<std::byte> o, absl::Span<std::byte> lse) : o_(o), lse_(lse) {}

  // Of o and LSE together.
  int64_t size() const { return static_cast<int64_t>(o_.size() + lse_.size()); }

  // INTERNAL unless `result` announces exactly the bytes that there is room for.
  absl::Status Check(const v1::AttendResult& result) const;

  // Copies `payload` to `offset` within o, LSE laid end to end. REQUIRES: it fits.
  void Write(int64_t offset, const wire::PayloadRef& payload) const;

 private:
  absl::Span<std::byte> o_;
  absl::Span<std::byte> lse_;
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_ANSWER_BUFFER_H_
