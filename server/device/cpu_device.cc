#include "server/device/cpu_device.h"

#include <cstring>
#include <fstream>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tessera {

absl::StatusOr<std::unique_ptr<CpuDevice>> CpuDevice::Make(std::unique_ptr<AttentionBackend> backend,
                                                           size_t staging_bytes, int slots, Clock* clock,
                                                           std::unique_ptr<PagedAttentionBackend> paged) {
  absl::StatusOr<std::unique_ptr<StagingPool::Region>> region = StagingPool::MapAnonymous(staging_bytes);
  if (!region.ok()) return region.status();
  return std::make_unique<CpuDevice>(/*index=*/0, std::move(backend), std::make_shared<StagingPool>(*std::move(region)),
                                     slots, clock, std::move(paged));
}

CpuDevice::CpuDevice(int index, std::unique_ptr<AttentionBackend> backend, std::shared_ptr<StagingPool> staging,
                     int slots, Clock* clock, std::unique_ptr<PagedAttentionBackend> paged)
    : backend_(std::move(backend)),
      paged_(std::move(paged)),
      clock_(clock),
      info_{.index = index,
            .backend = "cpu",
            .name = CpuName("/proc/cpuinfo"),
            .kernel = std::string(backend_->name()),
            .memory_bytes = 0,
            .slots = slots},
      staging_(std::move(staging)),
      slot_sequences_(slots) {
  ABSL_RAW_CHECK(slots >= 1, "a device has a slot");
}

BatchOutcome CpuDevice::Run(int slot, const AttentionParams& params, absl::Span<const BatchItem> items,
                            const std::stop_token& stop) {
  std::vector<SequenceView>& sequences = slot_sequences_[slot];
  sequences.clear();
  for (const BatchItem& item : items) sequences.insert(sequences.end(), item.sequences.begin(), item.sequences.end());
  BatchOutcome outcome;
  const absl::Time start = clock_->Now();
  outcome.status = backend_->ForwardUntilStopped(params, sequences, stop, &outcome.stats);
  outcome.times.compute = clock_->Now() - start;
  if (sequences.capacity() > kKeptSequences) sequences = std::vector<SequenceView>();
  return outcome;
}

absl::StatusOr<std::unique_ptr<StagingPool::Region>> CpuDevice::TakePages(size_t bytes) {
  return paged_ == nullptr ? Device::TakePages(bytes) : StagingPool::MapAnonymous(bytes);
}

BatchOutcome CpuDevice::Extend(int slot, const PagedParams& params, absl::Span<const ExtendItem> items,
                               const std::stop_token& stop) {
  if (paged_ == nullptr) return Device::Extend(slot, params, items, stop);
  const absl::Time start = clock_->Now();
  for (const ExtendItem& item : items) {
    for (const MemoryFill& fill : item.fills) std::memset(fill.at, 0, fill.bytes);
  }
  std::vector<PagedSequence> sequences;
  for (const ExtendItem& item : items) {
    for (const absl::Span<const MemoryCopy> copies : {item.copies, item.to_host, item.from_host}) {
      for (const MemoryCopy& copy : copies) std::memcpy(copy.to, copy.from, copy.bytes);
    }
    sequences.insert(sequences.end(), item.sequences.begin(), item.sequences.end());
  }
  BatchOutcome outcome;
  outcome.status = paged_->ExtendUntilStopped(params, sequences, stop, &outcome.stats);
  outcome.times.compute = clock_->Now() - start;
  return outcome;
}

std::string CpuName(const std::string& cpuinfo_path) {
  std::ifstream cpuinfo(cpuinfo_path);
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    const std::vector<std::string> field_and_name = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (field_and_name.size() == 2) return std::string(absl::StripAsciiWhitespace(field_and_name[1]));
  }
  return "CPU";
}

}  // namespace tessera
