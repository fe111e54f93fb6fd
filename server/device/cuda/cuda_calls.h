// What the GPU device asks of the CUDA runtime, so that its logic can be tested without a GPU.
//
// Every call may also return the error of earlier work on the same device. Errors are those of
// kernels/cuda/cuda_status.h: RESOURCE_EXHAUSTED leaves the device usable, UNAVAILABLE means that there is none.
#ifndef TESSERA_SERVER_DEVICE_CUDA_CUDA_CALLS_H_
#define TESSERA_SERVER_DEVICE_CUDA_CUDA_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/attention.h"
#include "server/region/region_mapper.h"

namespace tessera {

struct CudaDeviceFacts {
  std::string name;  // "NVIDIA H200"
  int64_t free_bytes = 0;
  DeviceUuid uuid = {};
};

// One piece of a transfer.
struct CudaCopy {
  void* to;
  const void* from;
  size_t bytes;
};

// Thread-safe. A thread selects a device first; its later calls concern that device.
class CudaCalls {
 public:
  enum class Direction : uint8_t { kToDevice, kToHost };
  using Event = void*;

  virtual ~CudaCalls() = default;

  // UNAVAILABLE where the machine has no driver or no GPU.
  virtual absl::StatusOr<int> CountDevices() = 0;
  virtual absl::Status SelectDevice(int device) = 0;
  virtual absl::StatusOr<CudaDeviceFacts> Describe(int device) = 0;

  virtual absl::StatusOr<std::byte*> AllocateDevice(size_t bytes) = 0;
  virtual void FreeDevice(std::byte* data) = 0;
  // Host memory that all devices copy from and to without the CPU.
  virtual absl::StatusOr<std::byte*> AllocatePinned(size_t bytes) = 0;
  virtual void FreePinned(std::byte* data) = 0;
  // The same for memory that is there already, whole pages.
  virtual absl::Status RegisterPinned(absl::Span<std::byte> memory) = 0;
  virtual void UnregisterPinned(std::byte* data) = 0;

  // Maps an allocation of another process, the whole of it. An error of the handle's is INTERNAL, and the device goes
  // on.
  virtual absl::StatusOr<absl::Span<std::byte>> OpenIpc(const CudaIpcHandle& handle) = 0;
  virtual void CloseIpc(std::byte* data) = 0;

  // Streams are independent of one another and of the default stream.
  virtual absl::StatusOr<StreamHandle> CreateStream() = 0;
  virtual void DestroyStream(StreamHandle stream) = 0;
  // Events keep the time; a thread that waits for one sleeps.
  virtual absl::StatusOr<Event> CreateEvent() = 0;
  virtual void DestroyEvent(Event event) = 0;

  // In stream order.
  virtual absl::Status Copy(absl::Span<const CudaCopy> copies, Direction direction, StreamHandle stream) = 0;
  // In stream order, by the device's processors, with one launch for many pieces: what has the lower latency. A piece
  // lies in the device's memory or in pinned memory at either end; one that comes from null becomes zeros. REQUIRES: no
  // piece overlaps the destination of another.
  virtual absl::Status Move(absl::Span<const CudaCopy> pieces, StreamHandle stream) = 0;
  virtual absl::Status Record(Event event, StreamHandle stream) = 0;

  // Whether the stream has come to where the event was recorded last. Returns at once.
  virtual absl::StatusOr<bool> Reached(Event event) = 0;
  // Waits until it has.
  virtual absl::Status Await(Event event) = 0;
  // Device time between two events that have been awaited.
  virtual absl::StatusOr<absl::Duration> Elapsed(Event from, Event to) = 0;
  // Forgets the calling thread's last error, where the device itself has survived it.
  virtual void ForgetError() = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_CUDA_CUDA_CALLS_H_
