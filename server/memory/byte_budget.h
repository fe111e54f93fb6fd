// Admission by bytes: what a request will hold is charged before any of it is touched.
#ifndef TESSERA_SERVER_MEMORY_BYTE_BUDGET_H_
#define TESSERA_SERVER_MEMORY_BYTE_BUDGET_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace tessera {

// A fixed number of bytes, of which one tenant may hold a part. Thread-safe, never blocks on anything but its own short
// lock. Outlives its charges.
class ByteBudget {
 private:
  struct Account {
    int64_t bytes = 0;
    int64_t staged = 0;
  };
  using Accounts = absl::node_hash_map<std::string, Account>;  // of the tenants that hold something

 public:
  struct Limits {
    int64_t bytes;
    int64_t tenant_bytes;   // of `bytes`, for one tenant
    int64_t tenant_staged;  // likewise, of what lies in staging memory
  };

  struct Size {
    int64_t bytes;
    int64_t staged = 0;  // of `bytes`, those in staging memory
  };

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

  // One tenant may hold everything.
  explicit ByteBudget(int64_t limit)
      : ByteBudget(Limits{.bytes = limit, .tenant_bytes = limit, .tenant_staged = limit}) {}
  explicit ByteBudget(const Limits& limits) : limits_(limits) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // RESOURCE_EXHAUSTED where `size` does not fit now; INVALID_ARGUMENT where it never will, `beside` being bytes that
  // whoever asks holds already and goes on holding.
  absl::StatusOr<Charge> Acquire(absl::string_view tenant, Size size, int64_t beside = 0);

  const Limits& limits() const { return limits_; }
  int64_t in_use() const;

 private:
  void GiveBack(Accounts::value_type* tenant, Size size);

  const Limits limits_;
  mutable absl::Mutex mutex_;
  int64_t in_use_ ABSL_GUARDED_BY(mutex_) = 0;
  Accounts accounts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_MEMORY_BYTE_BUDGET_H_
