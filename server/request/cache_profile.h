// What all resident sequences of one kind have in common: the shape of their rows, and how much of them there may be.
#ifndef TESSERA_SERVER_REQUEST_CACHE_PROFILE_H_
#define TESSERA_SERVER_REQUEST_CACHE_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/attention.h"
#include "kernels/paged_attention.h"

namespace tessera {

// Declared when the server starts.
struct CacheProfile {
  // A name is in answers and in labels of metrics.
  static constexpr size_t kMaxNameBytes = 64;

  std::string name;  // callers ask for it by this: printable ASCII
  int layers = 1;
  int32_t kv_heads = 1;
  int32_t head_dim = 128;
  DType dtype = DType::kBFloat16;  // of q, k, v and o
  bool float8 = false;             // K and V are kept as fp8 e4m3; otherwise as they come, in dtype
  // Of fp8, as PagedLayer has them: [layers, 2, kv_heads], K's and then V's of each layer. Empty: 1 everywhere.
  std::vector<float> kv_scales = {};
  int64_t page_tokens = 64;  // tokens a page, in all layers: a power of two
  int32_t pages = 0;         // of all sequences together
  int32_t host_pages = 0;    // room for pages of idle sequences in the host's memory; 0: none are moved there
  int64_t max_tokens = int64_t{1} << 17;
  int64_t max_sequences = 4096;
  double tenant_share = 1;  // of pages, here and there, and sequences that one tenant may hold, above 0 and at most 1
  absl::Duration lease = absl::Minutes(5);

  CacheDType kv_dtype() const { return float8 ? CacheDType::kFloat8 : CacheDTypeFor(dtype); }
  // Elements of one layer's K, or V, in a page.
  int64_t plane_elements() const { return page_tokens * kv_heads * head_dim; }
  // K and V of all layers.
  int64_t page_elements() const { return plane_elements() * 2 * layers; }
  int64_t page_bytes() const { return page_elements() * SizeOf(kv_dtype()); }
  int64_t bytes() const { return page_bytes() * pages; }
  int64_t host_bytes() const { return page_bytes() * host_pages; }
};

// INVALID_ARGUMENT naming the profile, the field and the limit. What passes has sizes that do not overflow.
absl::Status Validate(const CacheProfile& profile);

}  // namespace tessera

#endif  // TESSERA_SERVER_REQUEST_CACHE_PROFILE_H_
