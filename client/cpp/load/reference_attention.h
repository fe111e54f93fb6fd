// Attention of one query row and head in double precision, straight from the definition, to check answers against.
#ifndef TESSERA_CLIENT_CPP_LOAD_REFERENCE_ATTENTION_H_
#define TESSERA_CLIENT_CPP_LOAD_REFERENCE_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "client/cpp/load/call_shape.h"
#include "client/cpp/load/payload_pool.h"

namespace tessera::load {

struct ReferenceRow {
  std::vector<double> o;          // [head_dim]; zeros for a row that sees no key
  std::vector<double> magnitude;  // [head_dim], sum of weight * |v|: what rounding errors of o are proportional to
  double lse = 0;                 // natural logarithm; -inf for a row that sees no key
};

// REQUIRES: the indices lie within the shape, and the payload has its sizes.
ReferenceRow ComputeReferenceRow(const CallShape& shape, const Payload& payload, int64_t sequence, int64_t row,
                                 int64_t head);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_REFERENCE_ATTENTION_H_
