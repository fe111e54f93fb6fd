// Admission by bytes: what a request will hold is charged before any of it is touched.
#ifndef TESSERA_SERVER_MEMORY_BYTE_BUDGET_H_
#define TESSERA_SERVER_MEMORY_BYTE_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/clock/clock.h"

namespace tessera {

// A fixed number of bytes, some of them in staging memory, and who holds them. Thread-safe, never blocks on anything
// but its own short lock. Outlives its charges.
//
// Sharing is work-conserving: a tenant may hold everything as long as nobody else misses it. A tenant that is refused
// has a claim for kClaim, and while another's claim lives, nobody comes to hold more than the share: the whole divided
// by the tenants that hold or claim something. What is given back so goes to those below their share, and none of them
// waits for longer than it takes the others to finish what they hold. Only a tenant that would stay within its share,
// or holds nothing yet, gets a claim: those who have enough cannot keep others down. A first call is never refused for
// the share's sake, so that calls larger than it have their chance.
class ByteBudget {
 private:
  struct Account;
  using Accounts = absl::node_hash_map<std::string, Account>;  // of the tenants that hold or claim something
  using Claims = std::list<Accounts::value_type*>;             // the oldest first

  struct Account {
    int64_t bytes = 0;
    int64_t staged = 0;
    std::optional<Claims::iterator> claim;
    absl::Time claims_until;  // while it has a claim
  };

 public:
  struct Limits {
    int64_t bytes;
    int64_t staged;         // of `bytes`: the staging memory
    int64_t tenant_bytes;   // of `bytes`, for one tenant, whether others miss them or not
    int64_t tenant_staged;  // likewise, of `staged`
  };

  struct Size {
    int64_t bytes;
    int64_t staged = 0;  // of `bytes`, those in staging memory
  };

  // Longer than a refused caller is told to wait.
  static constexpr absl::Duration kClaim = absl::Seconds(10);
  // Tenants with a claim that hold nothing, at most; beyond it the oldest claim is forgotten.
  static constexpr size_t kMaxClaims = 1024;

  // A share of the budget, given back by the destructor. Movable, not copyable.
  class Charge {
   public:
    Charge() = default;
    Charge(Charge&& other) noexcept;
    Charge& operator=(Charge&& other) noexcept;
    ~Charge();

    int64_t bytes() const { return size_.bytes; }
    // Gives everything back now.
    void Release();

   private:
    friend class ByteBudget;
    Charge(ByteBudget* budget, Accounts::value_type* tenant, Size size)
        : budget_(budget), tenant_(tenant), size_(size) {}

    ByteBudget* budget_ = nullptr;
    Accounts::value_type* tenant_ = nullptr;  // stays where it is while anything is charged to it
    Size size_ = {0};
  };

  // One tenant may hold everything, and all of it may be staged. The clock outlives the budget.
  ByteBudget(int64_t limit, Clock* clock)
      : ByteBudget(Limits{.bytes = limit, .staged = limit, .tenant_bytes = limit, .tenant_staged = limit}, clock) {}
  ByteBudget(const Limits& limits, Clock* clock) : limits_(limits), clock_(clock) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // For a new call, or the message that opens it: `beside` are bytes that the call holds already and goes on holding.
  // RESOURCE_EXHAUSTED where `size` does not fit now; INVALID_ARGUMENT where it never will.
  absl::StatusOr<Charge> Acquire(absl::string_view tenant, Size size, int64_t beside = 0);
  // For a call that has been admitted and holds `beside`. The share does not bind it: it must go on to give anything
  // back.
  absl::StatusOr<Charge> AcquireMore(absl::string_view tenant, Size size, int64_t beside);
  // Gives a tenant that is within its share a claim, as if Acquire had refused it: for whoever finds that the staging
  // memory granted lies about in pieces too small.
  void Claim(absl::string_view tenant);

  const Limits& limits() const { return limits_; }
  int64_t in_use() const;

 private:
  // INVALID_ARGUMENT where a charge of `size` beside `beside` can never be had.
  absl::Status CheckEver(Size size, int64_t beside) const;
  // RESOURCE_EXHAUSTED where there is no room for `size` of one who holds `held` of his own.
  absl::Status CheckRoom(const Account& held, Size size) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a tenant that holds `held` would be within its share with `size`, or this were its first call.
  bool WithinShare(const Account& held, Size size, int64_t beside, size_t tenants) const;
  absl::StatusOr<Charge> Take(Accounts::iterator found, absl::string_view tenant, Size size)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void AddClaim(absl::string_view tenant, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropClaim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // the oldest
  void GiveBack(Accounts::value_type* tenant, Size size);

  const Limits limits_;
  Clock* const clock_;
  mutable absl::Mutex mutex_;
  Size in_use_ ABSL_GUARDED_BY(mutex_) = {0};
  Accounts accounts_ ABSL_GUARDED_BY(mutex_);
  Claims claims_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_MEMORY_BYTE_BUDGET_H_
