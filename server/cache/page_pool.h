// The pages of one place: which are free, how often each is referred to, and whose rows it may hold.
#ifndef TESSERA_SERVER_CACHE_PAGE_POOL_H_
#define TESSERA_SERVER_CACHE_PAGE_POOL_H_

#include <cstdint>
#include <vector>

#include "server/cache/page.h"
#include "server/cache/tenant_ledger.h"

namespace tessera {

// Not thread-safe. All calls O(1).
//
// Invariants: a page is in the free list exactly if nothing refers to it; a page in use belongs to one tenant, in whose
// account it counts once; `content` of a page names every tenant whose rows may be in its memory.
class PagePool {
 public:
  // REQUIRES: 0 <= pages <= kMaxPages.
  PagePool(Place place, int32_t pages);

  struct Taken {
    PageRef page;
    bool scrub;  // it may hold rows of another tenant: to be cleared before it is used
  };
  // A free page, the one that was freed last, with one reference. REQUIRES: free() > 0.
  Taken Take(Tenant& owner);
  // Once a page's scrub, if it needed one, is known to have been done. Until then it counts as holding rows of several.
  void MarkScrubbed(PageRef page, const Tenant& owner);

  // REQUIRES, all three: the page is in use.
  void Share(PageRef page);
  // One reference fewer; the last one frees the page. REQUIRES: `owner` took it.
  void Drop(PageRef page, Tenant& owner);
  int32_t references(PageRef page) const { return pages_[page.number()].references; }

  int64_t total() const { return static_cast<int64_t>(pages_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }

  // Whether `references` [total()], counted by someone else, are the pool's own, and the free list holds the rest.
  bool Agrees(const std::vector<int32_t>& references) const;

 private:
  struct Page {
    int32_t references = 0;
    TenantId content = TenantId::kNobody;
  };

  const Place place_;
  std::vector<Page> pages_;
  std::vector<int32_t> free_;  // the last one goes first
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CACHE_PAGE_POOL_H_
