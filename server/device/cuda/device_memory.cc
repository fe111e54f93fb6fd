#include "server/device/cuda/device_memory.h"

#include <optional>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"

namespace tessera {

DeviceMemory::Block::Block(Block&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      kept_(std::exchange(other.kept_, 0)) {}

DeviceMemory::Block& DeviceMemory::Block::operator=(Block&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(kept_, other.kept_);
  return *this;
}

DeviceMemory::Block::~Block() {
  if (memory_ != nullptr) memory_->Free(data_, kept_);
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> DeviceMemory::Take(int device, size_t bytes, CudaCalls* calls) {
  if (absl::Status selected = calls->SelectDevice(device); !selected.ok()) return selected;
  const absl::StatusOr<std::byte*> data = calls->AllocateDevice(bytes);
  if (!data.ok()) return data.status();
  return std::unique_ptr<DeviceMemory>(new DeviceMemory(device, *data, bytes, calls));
}

DeviceMemory::DeviceMemory(int device, std::byte* data, size_t bytes, CudaCalls* calls)
    : device_(device),
      data_(data),
      calls_(calls),
      arena_(bytes, kAlignment),
      capacity_(bytes / kAlignment * kAlignment) {}

DeviceMemory::~DeviceMemory() {
  ABSL_RAW_CHECK(in_use() == 0, "device memory outlives its blocks");
  if (calls_->SelectDevice(device_).ok()) calls_->FreeDevice(data_);
}

absl::StatusOr<DeviceMemory::Block> DeviceMemory::Allocate(size_t bytes) {
  if (bytes == 0) return Block();
  absl::MutexLock lock(&mutex_);
  if (bytes > capacity_ - kept_) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes, " bytes are more than the device's arena of ", capacity_ - kept_));
  }
  return AllocateLocked(bytes, /*keep=*/false);
}

absl::StatusOr<DeviceMemory::Block> DeviceMemory::Keep(size_t bytes) {
  if (bytes == 0) return Block();
  absl::MutexLock lock(&mutex_);
  return AllocateLocked(bytes, /*keep=*/true);
}

absl::StatusOr<DeviceMemory::Block> DeviceMemory::AllocateLocked(size_t bytes, bool keep) {
  const size_t before = arena_.in_use();
  const std::optional<size_t> offset = arena_.Allocate(bytes);
  if (!offset.has_value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("device memory: ", bytes, " bytes do not fit now, ", before, " of ", capacity_, " are in use"));
  }
  const size_t kept = keep ? arena_.in_use() - before : 0;
  kept_ += kept;
  return Block(this, data_ + *offset, kept);
}

size_t DeviceMemory::in_use() const {
  absl::MutexLock lock(&mutex_);
  return arena_.in_use();
}

void DeviceMemory::Free(std::byte* data, size_t kept) {
  absl::MutexLock lock(&mutex_);
  kept_ -= kept;
  arena_.Free(static_cast<size_t>(data - data_));
}

}  // namespace tessera
