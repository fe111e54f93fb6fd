#include "client/cpp/cli/npy_attend.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera {
namespace {

v1::DataType DataTypeOf(const NpyArray& array) {
  const absl::string_view type = absl::string_view(array.descr).substr(1);
  if (type == "f4") return v1::DATA_TYPE_FLOAT32;
  if (type == "f2") return v1::DATA_TYPE_FLOAT16;
  return v1::DATA_TYPE_BFLOAT16;
}

absl::Status CheckShape(absl::string_view name, const NpyArray& array) {
  bool fits = array.shape.size() == 3 && array.shape[1] > 0 && array.shape[2] > 0;
  for (const int64_t length : array.shape) fits = fits && length <= std::numeric_limits<uint32_t>::max();
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " has shape (", absl::StrJoin(array.shape, ", "), "), expected [tokens, heads, head_dim]"));
}

absl::Status CheckAlike(absl::string_view name, const NpyArray& array, const NpyArray& q) {
  if (DataTypeOf(array) != DataTypeOf(q)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has elements of type '", array.descr, "', q of '", q.descr, "'"));
  }
  if (array.shape[2] != q.shape[2]) {
    return absl::InvalidArgumentError(absl::StrCat(name, " has head_dim ", array.shape[2], ", q has ", q.shape[2]));
  }
  return absl::OkStatus();
}

absl::Status Check(const NpyArray& q, const NpyArray& k, const NpyArray& v) {
  absl::Status status = CheckShape("q", q);
  status.Update(CheckShape("k", k));
  status.Update(CheckShape("v", v));
  if (!status.ok()) return status;
  status.Update(CheckAlike("k", k, q));
  status.Update(CheckAlike("v", v, q));
  if (v.shape != k.shape) status.Update(absl::InvalidArgumentError("v must have the shape of k"));
  return status;
}

}  // namespace

absl::StatusOr<NpyAnswer> AttendNpy(Client* client, v1::AttendHeader header, const NpyArray& q, const NpyArray& k,
                                    const NpyArray& v, absl::Duration timeout) {
  if (absl::Status status = Check(q, k, v); !status.ok()) return status;
  header.set_dtype(DataTypeOf(q));
  header.set_q_heads(static_cast<uint32_t>(q.shape[1]));
  header.set_kv_heads(static_cast<uint32_t>(k.shape[1]));
  header.set_head_dim(static_cast<uint32_t>(q.shape[2]));
  if (header.q_lengths().empty()) header.add_q_lengths(static_cast<uint32_t>(q.shape[0]));
  if (header.kv_lengths().empty() && k.shape[0] != q.shape[0]) {
    header.add_kv_lengths(static_cast<uint32_t>(k.shape[0]));
  }

  NpyAnswer answer;
  answer.o.descr = q.descr;
  answer.o.shape = q.shape;
  answer.o.data.resize(q.data.size());
  answer.lse.descr = "<f4";
  answer.lse.shape = {header.options().return_lse() ? q.shape[0] : 0, q.shape[1]};
  answer.lse.data.resize(static_cast<size_t>(answer.lse.elements()) * sizeof(float));

  AttendCall call;
  call.header = std::move(header);
  call.q = q.data;
  call.k = k.data;
  call.v = v.data;
  call.o = absl::MakeSpan(answer.o.data);
  call.lse = absl::MakeSpan(answer.lse.data);
  call.timeout = timeout;
  absl::StatusOr<AttendReply> reply = client->Attend(call);
  if (!reply.ok()) return reply.status();
  answer.reply = *std::move(reply);
  return answer;
}

}  // namespace tessera
