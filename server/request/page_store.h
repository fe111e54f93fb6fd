// Where the pages of a profile are in memory, and how rows lie in them.
//
// Pages of idle sequences may be on the host, in memory of the same layout.
//
// A page holds, for each layer, K and then V of page_tokens tokens, each [page_tokens, kv_heads, head_dim]: so a page
// is one piece of memory, and all pages lie one after the other.
#ifndef TESSERA_SERVER_REQUEST_PAGE_STORE_H_
#define TESSERA_SERVER_REQUEST_PAGE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/attention.h"
#include "kernels/paged_attention.h"
#include "server/cache/cache_step.h"
#include "server/cache/page.h"
#include "server/memory/memory_work.h"
#include "server/memory/staging_pool.h"
#include "server/request/cache_profile.h"

namespace tessera {

// Deals in addresses of the memory that the pages lie in, which may be a device's, and never reads there. Immutable.
class PageStore {
 public:
  // REQUIRES: Validate(profile).ok(); the regions have profile.bytes() and profile.host_bytes() bytes, all zero. That
  // of the host may be null where it needs none.
  PageStore(const CacheProfile& profile, std::unique_ptr<StagingPool::Region> region,
            std::unique_ptr<StagingPool::Region> host_region);

  // What kernels are told of the pages, with what a call asks for. REQUIRES: of the profile's dtype, heads and
  // head_dim.
  PagedParams ParamsFor(const AttentionParams& attention) const;
  // Its scales are in host memory, for as long as the store. REQUIRES: 0 <= layer < profile.layers.
  PagedLayer layer(int32_t layer) const;

  MemoryFill Clearing(PageRef page) const;
  // On the device, one piece for each layer's K and V, of the copy's rows alone. Between the device and the host the
  // whole page as one piece: what it holds beyond its rows is the same tenant's, or zero.
  void AppendCopies(const PageCopy& copy, PageCopies* copies) const;

 private:
  std::byte* page(PageRef page) const {
    return (page.place() == Place::kHost ? *host_region_ : *region_).data() + page.number() * page_bytes_;
  }

  const int layers_;
  const int32_t kv_heads_;
  const int32_t head_dim_;
  const CacheDType kv_dtype_;
  const std::vector<float> scales_;  // [layers, 2, kv_heads] of fp8, else empty
  const int64_t page_tokens_;
  const int64_t plane_bytes_;
  const int64_t page_bytes_;
  const std::unique_ptr<StagingPool::Region> region_;
  const std::unique_ptr<StagingPool::Region> host_region_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_REQUEST_PAGE_STORE_H_
