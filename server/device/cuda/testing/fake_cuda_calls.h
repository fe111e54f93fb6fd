// GPUs that are not there, for tests: device memory is host memory, and a stream does its work while somebody waits
// for one of its events.
#ifndef TESSERA_SERVER_DEVICE_CUDA_TESTING_FAKE_CUDA_CALLS_H_
#define TESSERA_SERVER_DEVICE_CUDA_TESTING_FAKE_CUDA_CALLS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/device/cuda/cuda_calls.h"

namespace tessera {

// Work that is enqueued takes effect no sooner than it is awaited, so a test sees what is read or released too early.
// Whoever uses a device without having selected it on that thread, or anything that is not there, ends the test
// program. Thread-safe; work of different streams runs at the same time.
class FakeCudaCalls final : public CudaCalls {
 public:
  static constexpr std::byte kPoison{0xEE};                           // what device memory is full of at first
  static constexpr absl::Duration kCopyTime = absl::Milliseconds(2);  // of each piece
  static constexpr absl::Duration kMoveTime = absl::Milliseconds(1);  // of all pieces of a call

  struct Counts {
    int device_allocations = 0;
    int pinned_allocations = 0;
    int streams = 0;
    int events = 0;
    int registrations = 0;  // of pinned memory that was there
    int imports = 0;
    friend bool operator==(const Counts&, const Counts&) = default;
  };

  // Each of `devices` GPUs has `device_bytes` free.
  FakeCudaCalls(int devices, int64_t device_bytes) : devices_(devices), device_bytes_(device_bytes) {}
  // REQUIRES: everything has been given back.
  ~FakeCudaCalls() override;

  // For fake kernels: `work` runs in stream order and takes `time` of the device.
  void Launch(StreamHandle stream, absl::Duration time, std::function<void()> work);
  // Memory of another process on `device`, and the handle that names it. It outlives its imports.
  CudaIpcHandle Export(int device, size_t bytes);
  std::byte* Exported(const CudaIpcHandle& handle);
  // What Describe says of a device.
  static DeviceUuid UuidOf(int device);
  // The next call of this name fails with `error`, and the device survives: "AllocateDevice", "AllocatePinned",
  // "CreateStream", "CreateEvent", "Copy" (of the last piece), "Move", "RegisterPinned", "OpenIpc".
  void FailNext(const std::string& call, absl::Status error);
  // From the next wait on, every call on this device fails.
  void BreakAtNextWait(int device);

  // What is held now.
  Counts counts() const;
  // So far: pieces copied, calls of Move, and errors forgotten.
  int copies() const;
  int moves() const;
  int errors_forgotten() const;

  absl::StatusOr<int> CountDevices() override;
  absl::Status SelectDevice(int device) override;
  absl::StatusOr<CudaDeviceFacts> Describe(int device) override;
  absl::StatusOr<std::byte*> AllocateDevice(size_t bytes) override;
  void FreeDevice(std::byte* data) override;
  absl::StatusOr<std::byte*> AllocatePinned(size_t bytes) override;
  void FreePinned(std::byte* data) override;
  absl::Status RegisterPinned(absl::Span<std::byte> memory) override;
  void UnregisterPinned(std::byte* data) override;
  absl::StatusOr<absl::Span<std::byte>> OpenIpc(const CudaIpcHandle& handle) override;
  void CloseIpc(std::byte* data) override;
  absl::StatusOr<StreamHandle> CreateStream() override;
  void DestroyStream(StreamHandle stream) override;
  absl::StatusOr<Event> CreateEvent() override;
  void DestroyEvent(Event event) override;
  absl::Status Copy(absl::Span<const CudaCopy> copies, Direction direction, StreamHandle stream) override;
  absl::Status Move(absl::Span<const CudaCopy> pieces, StreamHandle stream) override;
  absl::Status Record(Event event, StreamHandle stream) override;
  absl::StatusOr<bool> Reached(Event event) override;
  absl::Status Await(Event event) override;
  absl::StatusOr<absl::Duration> Elapsed(Event from, Event to) override;
  void ForgetError() override;

 private:
  struct Work {
    absl::Duration time;
    std::function<void()> run;  // null for an event
    Event event = nullptr;
  };
  struct FakeStream {
    int device;
    absl::Duration now;
    std::deque<Work> work;
  };
  struct FakeEvent {
    int device;
    StreamHandle stream = nullptr;  // on which it was recorded last
    int pending = 0;                // recordings not reached yet
    absl::Duration time;
  };
  struct Allocation {
    int device;  // -1: pinned
    std::unique_ptr<std::byte, void (*)(void*)> data;
    size_t bytes;
  };

  static std::unique_ptr<std::byte, void (*)(void*)> NewMemory(size_t bytes);
  int Selected() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status StateOf(int device) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The scripted error of this call, or OK.
  absl::Status TakeFailure(const std::string& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Holds(const void* data, size_t bytes, int device) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  FakeStream& StreamOf(StreamHandle stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int devices_;
  const int64_t device_bytes_;
  mutable absl::Mutex mutex_;
  std::map<std::thread::id, int> selected_ ABSL_GUARDED_BY(mutex_);
  std::vector<Allocation> allocations_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Span<std::byte>> registered_ ABSL_GUARDED_BY(mutex_);
  std::map<CudaIpcHandle, Allocation> exports_ ABSL_GUARDED_BY(mutex_);
  std::multiset<std::byte*> imports_ ABSL_GUARDED_BY(mutex_);
  std::map<StreamHandle, std::unique_ptr<FakeStream>> streams_ ABSL_GUARDED_BY(mutex_);
  std::map<Event, std::unique_ptr<FakeEvent>> events_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, absl::Status> failures_ ABSL_GUARDED_BY(mutex_);
  std::set<int> breaking_ ABSL_GUARDED_BY(mutex_);
  std::set<int> broken_ ABSL_GUARDED_BY(mutex_);
  int copies_ ABSL_GUARDED_BY(mutex_) = 0;
  int moves_ ABSL_GUARDED_BY(mutex_) = 0;
  int errors_forgotten_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_CUDA_TESTING_FAKE_CUDA_CALLS_H_
