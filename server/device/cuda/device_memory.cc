#include "server/device/cuda/device_memory.h"

#include <optional>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"

namespace tessera {

DeviceMemory::Block::Block(Block&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), data_(std::exchange(other.data_, nullptr)) {}

DeviceMemory::Block& DeviceMemory::Block::operator=(Block&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  return *this;
}

DeviceMemory::Block::~Block() {
  if (memory_ != nullptr) memory_->Free(data_);
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
  if (bytes > capacity_) {
    return absl::InvalidArgumentError(absl::StrCat(bytes, " bytes are more than the device's arena of ", capacity_));
  }
  absl::MutexLock lock(&mutex_);
  const std::optional<size_t> offset = arena_.Allocate(bytes);
  if (!offset.has_value()) {
    return absl::ResourceExhaustedError(absl::StrCat("device memory: ", bytes, " bytes do not fit now, ",
                                                     arena_.in_use(), " of ", capacity_, " are in use"));
  }
  return Block(this, data_ + *offset);
}

size_t DeviceMemory::in_use() const {
  absl::MutexLock lock(&mutex_);
  return arena_.in_use();
}

void DeviceMemory::Free(std::byte* data) {
  absl::MutexLock lock(&mutex_);
  arena_.Free(static_cast<size_t>(data - data_));
}

}  // namespace tessera
