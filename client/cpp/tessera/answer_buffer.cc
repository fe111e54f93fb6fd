#include "client/cpp/tessera/answer_buffer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tessera {

absl::Status AnswerBuffer::Check(const v1::AttendResult& result) const {
  if (result.o_bytes() != o_.size()) {
    return absl::InternalError(
        absl::StrCat("the server answers with ", result.o_bytes(), " bytes of o, expected ", o_.size()));
  }
  if (result.lse_bytes() != lse_.size()) {
    return absl::InternalError(
        absl::StrCat("the server answers with ", result.lse_bytes(), " bytes of LSE, expected ", lse_.size()));
  }
  return absl::OkStatus();
}

void AnswerBuffer::Write(int64_t offset, const wire::PayloadRef& payload) const {
  const size_t start = static_cast<size_t>(offset);
  const size_t in_o = start < o_.size() ? std::min(payload.size(), o_.size() - start) : 0;
  if (in_o > 0) payload.Subrange(0, in_o).CopyTo(o_.data() + start);
  if (in_o < payload.size()) {
    payload.Subrange(in_o, payload.size() - in_o).CopyTo(lse_.data() + (start + in_o - o_.size()));
  }
}

}  // namespace tessera
