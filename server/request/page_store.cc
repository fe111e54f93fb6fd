#include "server/request/page_store.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"

namespace tessera {
namespace {

std::vector<float> ScalesOf(const CacheProfile& profile) {
  if (!profile.float8 || !profile.kv_scales.empty()) return profile.kv_scales;
  return std::vector<float>(static_cast<size_t>(profile.layers) * 2 * static_cast<size_t>(profile.kv_heads), 1.0f);
}

}  // namespace

PageStore::PageStore(const CacheProfile& profile, std::unique_ptr<StagingPool::Region> region,
                     std::unique_ptr<StagingPool::Region> host_region)
    : layers_(profile.layers),
      kv_heads_(profile.kv_heads),
      head_dim_(profile.head_dim),
      kv_dtype_(profile.kv_dtype()),
      scales_(ScalesOf(profile)),
      page_tokens_(profile.page_tokens),
      plane_bytes_(profile.plane_elements() * SizeOf(kv_dtype_)),
      page_bytes_(profile.page_bytes()),
      region_(std::move(region)),
      host_region_(std::move(host_region)) {
  ABSL_RAW_CHECK(static_cast<int64_t>(region_->size()) >= profile.bytes(), "the region holds the profile's pages");
  ABSL_RAW_CHECK(profile.host_pages == 0 || static_cast<int64_t>(host_region_->size()) >= profile.host_bytes(),
                 "the host's region holds its pages");
}

PagedParams PageStore::ParamsFor(const AttentionParams& attention) const {
  return {.attention = attention,
          .cache_dtype = kv_dtype_,
          .page_tokens = page_tokens_,
          .page_stride = page_bytes_ / SizeOf(kv_dtype_),
          .strides = Strides::Packed(kv_heads_, head_dim_)};
}

PagedLayer PageStore::layer(int32_t layer) const {
  std::byte* const keys = region_->data() + plane_bytes_ * 2 * layer;
  PagedLayer pages = {.k_pages = keys, .v_pages = keys + plane_bytes_};
  if (kv_dtype_ == CacheDType::kFloat8) {
    pages.k_scales = &scales_[static_cast<size_t>(layer) * 2 * static_cast<size_t>(kv_heads_)];
    pages.v_scales = pages.k_scales + kv_heads_;
  }
  return pages;
}

MemoryFill PageStore::Clearing(PageRef number) const { return {page(number), static_cast<size_t>(page_bytes_)}; }

void PageStore::AppendCopies(const PageCopy& copy, PageCopies* copies) const {
  if (copy.from.place() != copy.to.place()) {
    std::vector<MemoryCopy>& moves = copy.to.place() == Place::kHost ? copies->to_host : copies->from_host;
    moves.push_back({page(copy.from), page(copy.to), static_cast<size_t>(page_bytes_)});
    return;
  }
  const auto bytes = static_cast<size_t>(copy.tokens * kv_heads_ * head_dim_ * SizeOf(kv_dtype_));
  for (int plane = 0; plane < 2 * layers_; ++plane) {
    copies->on_device.push_back({page(copy.from) + plane * plane_bytes_, page(copy.to) + plane * plane_bytes_, bytes});
  }
}

}  // namespace tessera
