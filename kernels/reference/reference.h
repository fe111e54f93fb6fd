// Attention by its definition, in double: what every other backend is measured against.
#ifndef TESSERA_KERNELS_REFERENCE_REFERENCE_H_
#define TESSERA_KERNELS_REFERENCE_REFERENCE_H_

#include <memory>
#include <vector>

#include "kernels/attention.h"

namespace tessera {

// One sequence's results before they are rounded to the call's dtype.
struct ReferenceOutput {
  std::vector<double> o;    // [q_len, q_heads, head_dim], packed
  std::vector<double> lse;  // [q_len, q_heads], packed
};

// Takes one row of scores at a time: memory is linear in kv_len. The sequence's own o and lse are not touched.
// REQUIRES: arguments that ValidateParams and ValidateSequence accept.
ReferenceOutput AttendInDouble(const AttentionParams& params, const SequenceView& sequence);

// A backend named "reference": AttendInDouble, one thread, results rounded to the call's dtype.
std::unique_ptr<AttentionBackend> MakeReferenceBackend();

}  // namespace tessera

#endif  // TESSERA_KERNELS_REFERENCE_REFERENCE_H_
