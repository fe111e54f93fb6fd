#include "server/cache/page_pool.h"

#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(PageRefTest, KeepsPlaceAndNumber) {
  EXPECT_FALSE(PageRef().exists());
  for (const Place place : {Place::kDevice, Place::kHost}) {
    for (const int32_t number : {0, 1, kMaxPages - 1}) {
      const PageRef page(place, number);
      EXPECT_TRUE(page.exists());
      EXPECT_EQ(page.place(), place);
      EXPECT_EQ(page.number(), number);
    }
  }
  EXPECT_NE(PageRef(Place::kDevice, 3), PageRef(Place::kHost, 3));
}

TEST(PagePoolTest, GivesEveryPageOnce) {
  PagePool pool(Place::kHost, 5);
  TenantLedger ledger({}, {});
  Tenant& tenant = ledger.FindOrAdd("a");
  std::set<int32_t> numbers;
  while (pool.free() > 0) {
    const PagePool::Taken taken = pool.Take(tenant);
    EXPECT_EQ(taken.page.place(), Place::kHost);
    EXPECT_FALSE(taken.scrub) << "nobody has written it";
    numbers.insert(taken.page.number());
  }
  EXPECT_EQ(numbers, (std::set<int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(tenant.pages_at(Place::kHost), 5);
  EXPECT_EQ(tenant.pages_at(Place::kDevice), 0);
}

TEST(PagePoolTest, TheLastReferenceFreesThePage) {
  PagePool pool(Place::kDevice, 2);
  TenantLedger ledger({}, {});
  Tenant& tenant = ledger.FindOrAdd("a");
  const PageRef page = pool.Take(tenant).page;
  pool.Share(page);
  EXPECT_EQ(pool.references(page), 2);
  pool.Drop(page, tenant);
  EXPECT_EQ(pool.free(), 1);
  EXPECT_EQ(tenant.pages_at(Place::kDevice), 1) << "a shared page counts once";
  pool.Drop(page, tenant);
  EXPECT_EQ(pool.free(), 2);
  EXPECT_EQ(tenant.pages_at(Place::kDevice), 0);
}

TEST(PagePoolTest, APageIsScrubbedForAnotherTenantOnly) {
  PagePool pool(Place::kDevice, 1);
  TenantLedger ledger({}, {});
  Tenant& a = ledger.FindOrAdd("a");
  Tenant& b = ledger.FindOrAdd("b");
  const PageRef page = pool.Take(a).page;
  pool.Drop(page, a);
  EXPECT_FALSE(pool.Take(a).scrub);
  pool.Drop(page, a);

  EXPECT_TRUE(pool.Take(b).scrub);
  pool.Drop(page, b);
  EXPECT_TRUE(pool.Take(b).scrub) << "nobody has said that it was done";
  pool.MarkScrubbed(page, b);
  pool.Drop(page, b);
  EXPECT_FALSE(pool.Take(b).scrub);
  pool.Drop(page, b);
  EXPECT_TRUE(pool.Take(a).scrub);
}

TEST(PagePoolTest, AgreesWithARecountAlone) {
  PagePool pool(Place::kDevice, 3);
  TenantLedger ledger({}, {});
  Tenant& tenant = ledger.FindOrAdd("a");
  const PageRef page = pool.Take(tenant).page;
  std::vector<int32_t> references(3);
  EXPECT_FALSE(pool.Agrees(references));
  references[page.number()] = 1;
  EXPECT_TRUE(pool.Agrees(references));
  references[page.number()] = 2;
  EXPECT_FALSE(pool.Agrees(references));
}

TEST(TenantLedgerTest, ATenantThatComesBackIsAnother) {
  TenantLedger ledger({.sequences = 3}, {{"big", {.sequences = 9}}});
  Tenant& tenant = ledger.FindOrAdd("a");
  const TenantId id = tenant.id;
  EXPECT_EQ(&ledger.FindOrAdd("a"), &tenant);
  EXPECT_EQ(tenant.quota.sequences, 3);
  EXPECT_EQ(ledger.FindOrAdd("big").quota.sequences, 9);
  ledger.DropIfIdle(tenant);
  EXPECT_EQ(ledger.Find("a"), nullptr);
  EXPECT_NE(ledger.FindOrAdd("a").id, id);
}

}  // namespace
}  // namespace tessera
