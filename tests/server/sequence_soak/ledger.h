// What the callers of a soak tell their parent and each other, in memory that outlives whichever of them is killed.
#ifndef TESSERA_TESTS_SERVER_SEQUENCE_SOAK_LEDGER_H_
#define TESSERA_TESTS_SERVER_SEQUENCE_SOAK_LEDGER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tessera::testing {

// What an operation came to.
enum class SoakOutcome {
  kCreated,
  kExtended,
  kRead,
  kForked,
  kTruncated,
  kReleased,
  kInspected,
  kCancelled,      // in mid-step
  kRefused,        // for want of pages or sequences
  kExpired,        // the sequence's lease was over
  kForeignDenied,  // another tenant's sequence, not found
  kCount
};

constexpr std::array<const char*, static_cast<size_t>(SoakOutcome::kCount)> kSoakOutcomes = {
    "created",
    "extended",
    "read",
    "forked",
    "truncated",
    "released",
    "inspected",
    "cancelled",
    "refused for now",
    "expired",
    "another tenant's, not found"};

// Thread-safe, and between processes. All zero is an empty one.
class SoakLedger {
 public:
  static constexpr int kMostWorkers = 64;

  // A file without a name, of an empty ledger, that child processes inherit. Negative where there is none to be had.
  static int CreateFile();
  // That of a file. Never unmapped.
  static SoakLedger& Map(int file);

  void Count(SoakOutcome outcome) { counts_[static_cast<size_t>(outcome)].fetch_add(1, std::memory_order_relaxed); }
  int64_t counted(SoakOutcome outcome) const { return counts_[static_cast<size_t>(outcome)].load(); }
  int64_t operations() const;

  // Tells everybody of a sequence that `worker` has. REQUIRES: the handle is as long as the server's are.
  void Publish(int worker, const std::string& handle);
  // One that `worker` had, and may still have; nothing where it has published none. One that is published meanwhile may
  // come out in parts, and then is nobody's.
  std::optional<std::string> Published(int worker) const;

 private:
  static constexpr size_t kHandleWords = 4;

  std::array<std::atomic<int64_t>, static_cast<size_t>(SoakOutcome::kCount)> counts_;
  std::array<std::array<std::atomic<uint64_t>, kHandleWords>, kMostWorkers> handles_;
};

static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_SEQUENCE_SOAK_LEDGER_H_
