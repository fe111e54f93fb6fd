#include "server/request/page_store.h"

#include <utility>

#include "absl/base/internal/raw_logging.h"

namespace tessera {

PageStore::PageStore(const CacheProfile& profile, std::unique_ptr<StagingPool::Region> region)
    : layers_(profile.layers),
      kv_heads_(profile.kv_heads),
      head_dim_(profile.head_dim),
      dtype_(profile.dtype),
      page_tokens_(profile.page_tokens),
      plane_bytes_(profile.plane_elements() * SizeOf(profile.dtype)),
      page_bytes_(profile.page_bytes()),
      region_(std::move(region)) {
  ABSL_RAW_CHECK(static_cast<int64_t>(region_->size()) >= profile.bytes(), "the region holds the profile's pages");
}

PagedParams PageStore::ParamsFor(const AttentionParams& attention) const {
  return {.attention = attention,
          .cache_dtype = CacheDTypeFor(dtype_),
          .page_tokens = page_tokens_,
          .page_stride = page_bytes_ / SizeOf(dtype_),
          .strides = Strides::Packed(kv_heads_, head_dim_)};
}

PagedLayer PageStore::layer(int32_t layer) const {
  std::byte* const keys = region_->data() + plane_bytes_ * 2 * layer;
  return {.k_pages = keys, .v_pages = keys + plane_bytes_};
}

MemoryFill PageStore::Clearing(PageRef number) const { return {page(number), static_cast<size_t>(page_bytes_)}; }

void PageStore::AppendCopies(const PageCopy& copy, std::vector<MemoryCopy>* copies) const {
  const auto bytes = static_cast<size_t>(copy.tokens * kv_heads_ * head_dim_ * SizeOf(dtype_));
  for (int plane = 0; plane < 2 * layers_; ++plane) {
    copies->push_back({page(copy.from) + plane * plane_bytes_, page(copy.to) + plane * plane_bytes_, bytes});
  }
}

}  // namespace tessera
