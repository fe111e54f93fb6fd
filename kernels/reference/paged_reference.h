// Paged attention by its definition, in double: what every paged kernel is measured against.
#ifndef TESSERA_KERNELS_REFERENCE_PAGED_REFERENCE_H_
#define TESSERA_KERNELS_REFERENCE_PAGED_REFERENCE_H_

#include <vector>

#include "kernels/paged_attention.h"
#include "kernels/reference/reference.h"

namespace tessera {

// K and V of one sequence as they are in its pages, scales included: [kv_len, kv_heads, head_dim], packed.
struct PagedRows {
  std::vector<double> k;
  std::vector<double> v;
};

// REQUIRES, of both: arguments that ValidatePagedBatch accepts; memory and pages of the host.
PagedRows ReadPages(const PagedParams& params, const PagedSequence& sequence);

// Over the rows that are in the pages now: new ones are to be appended first. The sequence's own o and lse are not
// touched.
ReferenceOutput AttendPagedInDouble(const PagedParams& params, const PagedSequence& sequence);

}  // namespace tessera

#endif  // TESSERA_KERNELS_REFERENCE_PAGED_REFERENCE_H_
