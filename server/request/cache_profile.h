// What all resident sequences of one kind have in common: the shape of their rows, and how much of them there may be.
#ifndef TESSERA_SERVER_REQUEST_CACHE_PROFILE_H_
#define TESSERA_SERVER_REQUEST_CACHE_PROFILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/attention.h"

namespace tessera {

// Declared when the server starts. K and V are stored in the profile's own dtype.
struct CacheProfile {
  std::string name;  // callers ask for it by this
  int layers = 1;
  int32_t kv_heads = 1;
  int32_t head_dim = 128;
  DType dtype = DType::kBFloat16;
  int64_t page_tokens = 64;  // tokens a page, in all layers: a power of two
  int32_t pages = 0;         // of all sequences together
  int64_t max_tokens = int64_t{1} << 17;
  int64_t max_sequences = 4096;
  double tenant_share = 1;  // of pages and sequences that one tenant may hold, above 0 and at most 1
  absl::Duration lease = absl::Minutes(5);

  // Elements of one layer's K, or V, in a page.
  int64_t plane_elements() const { return page_tokens * kv_heads * head_dim; }
  // K and V of all layers.
  int64_t page_elements() const { return plane_elements() * 2 * layers; }
  int64_t page_bytes() const { return page_elements() * SizeOf(dtype); }
  int64_t bytes() const { return page_bytes() * pages; }
};

// INVALID_ARGUMENT naming the profile, the field and the limit. What passes has sizes that do not overflow.
absl::Status Validate(const CacheProfile& profile);

}  // namespace tessera

#endif  // TESSERA_SERVER_REQUEST_CACHE_PROFILE_H_
