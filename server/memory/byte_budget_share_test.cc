// How tenants share the budget.
#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/clock/fake_clock.h"
#include "server/memory/byte_budget.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

using testing::HasSubstr;

bool Refused(const absl::StatusOr<ByteBudget::Charge>& charge) { return absl::IsResourceExhausted(charge.status()); }

class ByteBudgetShareTest : public testing::Test {
 protected:
  FakeClock clock_;
  ByteBudget budget_{100, &clock_};
};

TEST_F(ByteBudgetShareTest, LoneTenantMayHoldEverything) {
  std::vector<ByteBudget::Charge> held;
  for (int i = 0; i < 10; ++i) held.push_back(*budget_.Acquire("only", {10}));
  EXPECT_TRUE(Refused(budget_.Acquire("only", {1})));
  held.pop_back();
  EXPECT_TRUE(budget_.Acquire("only", {10}).ok()) << "its own refusal holds nobody back";
}

TEST_F(ByteBudgetShareTest, NewcomerGetsWhatOthersGiveBack) {
  std::vector<ByteBudget::Charge> held;
  for (int i = 0; i < 10; ++i) held.push_back(*budget_.Acquire("old", {10}));
  EXPECT_TRUE(Refused(budget_.Acquire("new", {20})));
  held.pop_back();
  const absl::StatusOr<ByteBudget::Charge> again = budget_.Acquire("old", {10});
  EXPECT_TRUE(Refused(again));
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("share"));
  held.pop_back();
  const ByteBudget::Charge first = *budget_.Acquire("new", {20});
  held.resize(5);
  const ByteBudget::Charge second = *budget_.Acquire("new", {30});
  EXPECT_TRUE(Refused(budget_.Acquire("new", {1}))) << "nothing is left";
  held.pop_back();
  EXPECT_TRUE(budget_.Acquire("old", {10}).ok()) << "within its share, it goes on";
}

TEST_F(ByteBudgetShareTest, ClaimPasses) {
  const ByteBudget::Charge most = *budget_.Acquire("old", {60});
  ByteBudget::Charge rest = *budget_.Acquire("old", {40});
  EXPECT_TRUE(Refused(budget_.Acquire("new", {10})));
  rest.Release();
  clock_.Advance(ByteBudget::kClaim - absl::Nanoseconds(1));
  EXPECT_TRUE(Refused(budget_.Acquire("old", {40})));
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_TRUE(budget_.Acquire("old", {40}).ok());
}

TEST_F(ByteBudgetShareTest, WhoHasEnoughMakesNoClaim) {
  const ByteBudget::Charge a = *budget_.Acquire("a", {45});
  const ByteBudget::Charge b = *budget_.Acquire("b", {35});
  ByteBudget::Charge more = *budget_.Acquire("b", {10});
  const ByteBudget::Charge c = *budget_.Acquire("c", {10});
  EXPECT_TRUE(Refused(budget_.Acquire("a", {10})));
  more.Release();
  EXPECT_TRUE(budget_.Acquire("b", {10}).ok());
  EXPECT_TRUE(Refused(budget_.Acquire("c", {11})));
  EXPECT_TRUE(Refused(budget_.Acquire("b", {10}))) << "but who has less than its share does";
}

TEST_F(ByteBudgetShareTest, FirstCallMayBeLargerThanTheShare) {
  const ByteBudget::Charge held = *budget_.Acquire("a", {20});
  ByteBudget::Charge rest = *budget_.Acquire("b", {80});
  EXPECT_TRUE(Refused(budget_.Acquire("a", {10}))) << "a claim of a's";
  rest.Release();
  const ByteBudget::Charge message = *budget_.Acquire("c", {5});
  EXPECT_TRUE(budget_.Acquire("c", {70}, /*beside=*/5).ok());
  EXPECT_TRUE(Refused(budget_.Acquire("c", {70}))) << "a second one may not";
}

TEST_F(ByteBudgetShareTest, AdmittedCallGoesOnWhoeverWaits) {
  ByteBudget::Charge call = *budget_.Acquire("old", {90});
  EXPECT_TRUE(Refused(budget_.Acquire("new", {20})));
  EXPECT_TRUE(Refused(budget_.Acquire("old", {10})));
  EXPECT_TRUE(budget_.AcquireMore("old", {10}, /*beside=*/90).ok());
}

TEST_F(ByteBudgetShareTest, FragmentsAreAClaimToo) {
  const ByteBudget::Charge a = *budget_.Acquire("a", {40});
  const ByteBudget::Charge b = *budget_.Acquire("b", {36});
  const ByteBudget::Charge c = *budget_.Acquire("c", {1});
  budget_.Claim("a");
  EXPECT_TRUE(budget_.Acquire("b", {10}).ok()) << "a is above its share";
  budget_.Claim("c");
  EXPECT_TRUE(Refused(budget_.Acquire("b", {10})));
}

TEST_F(ByteBudgetShareTest, ClaimsAreBounded) {
  const ByteBudget::Charge all = *budget_.Acquire("old", {100});
  for (size_t i = 0; i < 2 * ByteBudget::kMaxClaims; ++i) {
    EXPECT_TRUE(Refused(budget_.Acquire("new" + std::to_string(i), {1})));
  }
  clock_.Advance(ByteBudget::kClaim);
  EXPECT_TRUE(Refused(budget_.Acquire("old", {1})));
  EXPECT_EQ(budget_.in_use(), 100);
}

// Tenants that take whatever they get, and hold each charge for a while. `steps` of 1 ms.
struct GreedyTenant {
  std::string name;
  int64_t bytes = 0;
  int64_t staged = 0;
  std::deque<std::pair<int, ByteBudget::Charge>> charges;  // with the step at which they go
  std::deque<ByteBudget::Size> sizes;
  int last_granted = 0;
  double sum = 0;  // of bytes, over steps
};

TEST(ByteBudgetProperty, GreedyTenantsShareAndNoneStarves) {
  const uint64_t seed = tessera::RandomSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  constexpr int kSteps = 3000;
  constexpr int kLongest = 20;  // that a charge is held
  constexpr int64_t kBytes = 10000;
  constexpr int64_t kStaged = 6000;
  for (int round = 0; round < 10; ++round) {
    FakeClock clock;
    ByteBudget budget({.bytes = kBytes, .staged = kStaged, .tenant_bytes = kBytes, .tenant_staged = kStaged}, &clock);
    std::vector<GreedyTenant> tenants(2 + random() % 4);
    const auto count = static_cast<int64_t>(tenants.size());
    for (size_t i = 0; i < tenants.size(); ++i) tenants[i].name = std::to_string(i);
    const int newcomer_at = 100;  // the last tenant comes when the others hold everything
    for (int step = 0; step < kSteps; ++step) {
      clock.Advance(absl::Milliseconds(1));
      int64_t bytes = 0;
      int64_t staged = 0;
      for (GreedyTenant& tenant : tenants) {
        for (auto charge = tenant.charges.begin(); charge != tenant.charges.end();) {
          if (charge->first > step) {
            ++charge;
            continue;
          }
          const size_t at = charge - tenant.charges.begin();
          tenant.bytes -= tenant.sizes[at].bytes;
          tenant.staged -= tenant.sizes[at].staged;
          tenant.sizes.erase(tenant.sizes.begin() + at);
          charge = tenant.charges.erase(charge);
        }
        bytes += tenant.bytes;
        staged += tenant.staged;
      }
      std::vector<size_t> order(step < newcomer_at ? tenants.size() - 1 : tenants.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      // The old ones first, always: the newcomer has no luck to hope for.
      for (const size_t i : order) {
        GreedyTenant& tenant = tenants[i];
        for (;;) {
          ByteBudget::Size size = {.bytes = 1 + static_cast<int64_t>(random() % (kBytes / count / 3))};
          size.staged = std::min<int64_t>(size.bytes, static_cast<int64_t>(random() % (kStaged / count / 3)));
          absl::StatusOr<ByteBudget::Charge> charge = budget.Acquire(tenant.name, size);
          if (!charge.ok()) {
            const bool fits = bytes + size.bytes <= kBytes && staged + size.staged <= kStaged;
            const bool within =
                tenant.bytes + size.bytes <= kBytes / count && tenant.staged + size.staged <= kStaged / count;
            ASSERT_FALSE(fits && within) << "refused within its share, with room";
            break;
          }
          bytes += size.bytes;
          staged += size.staged;
          tenant.bytes += size.bytes;
          tenant.staged += size.staged;
          tenant.sizes.push_back(size);
          tenant.charges.emplace_back(step + 1 + static_cast<int>(random() % kLongest), *std::move(charge));
          tenant.last_granted = step;
          ASSERT_LE(bytes, kBytes);
          ASSERT_LE(staged, kStaged);
        }
        if (step >= newcomer_at + 3 * kLongest) {
          ASSERT_LE(step - tenant.last_granted, 2 * kLongest) << "tenant " << i << " of " << count << " starves";
          tenant.sum += static_cast<double>(tenant.bytes) / (kBytes / count);
        }
      }
      ASSERT_EQ(budget.in_use(), bytes);
    }
    for (const GreedyTenant& tenant : tenants) {
      EXPECT_GT(tenant.sum / (kSteps - newcomer_at - 3 * kLongest), 0.5) << "of its share, tenant " << tenant.name;
    }
  }
}

}  // namespace
}  // namespace tessera
