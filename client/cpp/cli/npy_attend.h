// An Attend call whose tensors are .npy arrays of shape [tokens, heads, head_dim].
#ifndef TESSERA_CLIENT_CPP_CLI_NPY_ATTEND_H_
#define TESSERA_CLIENT_CPP_CLI_NPY_ATTEND_H_

#include "absl/status/statusor.h"
#include "client/cpp/cli/npy.h"
#include "client/cpp/tessera/client.h"

namespace tessera {

struct NpyAnswer {
  NpyArray o;    // as q
  NpyArray lse;  // [tokens, q_heads] float32; no elements unless options.return_lse
  AttendReply reply;
};

// Fills dtype, heads and head_dim of `header` from the arrays; empty lengths mean one sequence. INVALID_ARGUMENT,
// naming the array, where the arrays do not fit each other; otherwise as Client::Attend.
absl::StatusOr<NpyAnswer> AttendNpy(Client* client, v1::AttendHeader header, const NpyArray& q, const NpyArray& k,
                                    const NpyArray& v, absl::Duration timeout);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_CLI_NPY_ATTEND_H_
