#include "server/cache/page_pool.h"

#include "absl/base/internal/raw_logging.h"

namespace tessera {

PagePool::PagePool(Place place, int32_t pages) : place_(place) {
  ABSL_RAW_CHECK(pages >= 0 && pages <= kMaxPages, "a number of pages");
  pages_.resize(pages);
  free_.reserve(pages);
  for (int32_t page = pages - 1; page >= 0; --page) free_.push_back(page);
}

PagePool::Taken PagePool::Take(Tenant& owner) {
  ABSL_RAW_CHECK(!free_.empty(), "taken from an empty pool");
  const int32_t number = free_.back();
  free_.pop_back();
  Page& page = pages_[number];
  page.references = 1;
  const bool scrub = page.content != TenantId::kNobody && page.content != owner.id;
  page.content = scrub ? TenantId::kSeveral : owner.id;
  ++owner.pages_at(place_);
  return {PageRef(place_, number), scrub};
}

void PagePool::MarkScrubbed(PageRef page, const Tenant& owner) { pages_[page.number()].content = owner.id; }

void PagePool::Share(PageRef page) {
  ABSL_RAW_CHECK(pages_[page.number()].references > 0, "shared a free page");
  ++pages_[page.number()].references;
}

void PagePool::Drop(PageRef page, Tenant& owner) {
  Page& dropped = pages_[page.number()];
  ABSL_RAW_CHECK(dropped.references > 0, "dropped a free page");
  if (--dropped.references > 0) return;
  free_.push_back(page.number());
  --owner.pages_at(place_);
}

bool PagePool::Agrees(const std::vector<int32_t>& references) const {
  std::vector<bool> listed(pages_.size());
  for (int32_t page : free_) {
    if (listed[page]) return false;
    listed[page] = true;
  }
  for (size_t page = 0; page < pages_.size(); ++page) {
    if (pages_[page].references != references[page] || listed[page] != (references[page] == 0)) return false;
  }
  return references.size() == pages_.size();
}

}  // namespace tessera
