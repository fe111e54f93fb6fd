#include "tests/server/sequence_soak/ledger.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "absl/base/internal/raw_logging.h"

namespace tessera::testing {

int SoakLedger::CreateFile() {
  const int file = memfd_create("soak-ledger", 0);
  if (file >= 0 && ftruncate(file, sizeof(SoakLedger)) != 0) {
    close(file);
    return -1;
  }
  return file;
}

SoakLedger& SoakLedger::Map(int file) {
  void* const memory = mmap(nullptr, sizeof(SoakLedger), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ABSL_RAW_CHECK(memory != MAP_FAILED, "the ledger is mapped");
  return *static_cast<SoakLedger*>(memory);
}

int64_t SoakLedger::operations() const {
  int64_t sum = 0;
  for (const std::atomic<int64_t>& count : counts_) sum += count.load(std::memory_order_relaxed);
  return sum;
}

void SoakLedger::Publish(int worker, const std::string& handle) {
  std::array<uint64_t, kHandleWords> words;
  ABSL_RAW_CHECK(handle.size() == sizeof(words), "handles are 32 bytes");
  std::memcpy(words.data(), handle.data(), sizeof(words));
  for (size_t i = 0; i < kHandleWords; ++i) handles_[static_cast<size_t>(worker)][i] = words[i];
}

std::optional<std::string> SoakLedger::Published(int worker) const {
  std::array<uint64_t, kHandleWords> words;
  for (size_t i = 0; i < kHandleWords; ++i) words[i] = handles_[static_cast<size_t>(worker)][i];
  if (words == std::array<uint64_t, kHandleWords>{}) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(words.data()), sizeof(words));
}

}  // namespace tessera::testing
