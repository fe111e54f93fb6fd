// Admission by bytes: what a request will hold is charged before any of it is touched.
#ifndef TESSERA_SERVER_MEMORY_BYTE_BUDGET_H_
#define TESSERA_SERVER_MEMORY_BYTE_BUDGET_H_

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"

namespace tessera {

// A fixed number of bytes. Thread-safe, never blocks. Outlives its charges.
class ByteBudget {
 public:
  // A share of the budget, given back by the destructor. Movable, not copyable.
  class Charge {
   public:
    Charge() = default;
    Charge(Charge&& other) noexcept;
    Charge& operator=(Charge&& other) noexcept;
    ~Charge();

    int64_t bytes() const { return bytes_; }
    // Gives everything back now.
    void Release();

   private:
    friend class ByteBudget;
    Charge(ByteBudget* budget, int64_t bytes) : budget_(budget), bytes_(bytes) {}

    ByteBudget* budget_ = nullptr;
    int64_t bytes_ = 0;
  };

  explicit ByteBudget(int64_t limit) : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // RESOURCE_EXHAUSTED where `bytes` do not fit now; INVALID_ARGUMENT where they never will.
  absl::StatusOr<Charge> Acquire(int64_t bytes);

  int64_t limit() const { return limit_; }
  int64_t in_use() const { return in_use_.load(std::memory_order_relaxed); }

 private:
  const int64_t limit_;
  std::atomic<int64_t> in_use_{0};
};

}  // namespace tessera

#endif  // TESSERA_SERVER_MEMORY_BYTE_BUDGET_H_
