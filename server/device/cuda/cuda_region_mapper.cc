#include "server/device/cuda/cuda_region_mapper.h"

#include <utility>

#include "absl/status/status.h"

namespace tessera {
namespace {

using UndoFn = void (CudaCalls::*)(std::byte*);

// What the device was told about the memory at `data`, and is told to forget.
class DeviceMapping final : public RegionMapper::Mapping {
 public:
  DeviceMapping(int device, CudaCalls* calls, UndoFn undo, std::byte* data)
      : device_(device), calls_(calls), undo_(undo), data_(data) {}
  DeviceMapping(const DeviceMapping&) = delete;
  DeviceMapping& operator=(const DeviceMapping&) = delete;
  ~DeviceMapping() override {
    if (calls_->SelectDevice(device_).ok()) (calls_->*undo_)(data_);
  }

 private:
  const int device_;
  CudaCalls* const calls_;
  const UndoFn undo_;
  std::byte* const data_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RegionMapper::Mapping>> CudaRegionMapper::Pin(absl::Span<std::byte> memory) {
  absl::Status status = calls_->SelectDevice(device_);
  if (status.ok()) status = calls_->RegisterPinned(memory);
  if (!status.ok()) {
    calls_->ForgetError();
    return absl::ResourceExhaustedError(status.message());
  }
  return std::make_unique<DeviceMapping>(device_, calls_, &CudaCalls::UnregisterPinned, memory.data());
}

absl::StatusOr<RegionMapper::Import> CudaRegionMapper::Open(const CudaIpcHandle& handle) {
  if (absl::Status selected = calls_->SelectDevice(device_); !selected.ok()) return selected;
  const absl::StatusOr<absl::Span<std::byte>> memory = calls_->OpenIpc(handle);
  if (!memory.ok()) {
    calls_->ForgetError();
    if (!absl::IsInternal(memory.status())) return memory.status();
    return absl::InvalidArgumentError("cuda_memory.handle: names no allocation that this device can open");
  }
  return Import{*memory, std::make_unique<DeviceMapping>(device_, calls_, &CudaCalls::CloseIpc, memory->data())};
}

}  // namespace tessera
