#include "server/device/cuda/testing/fake_cuda_calls.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

constexpr int kPinned = -1;
constexpr size_t kAlignment = 256;

// As a GPU copies: it knows nothing of poison in the padding between two buffers that travel as one piece.
ABSL_ATTRIBUTE_NO_SANITIZE_ADDRESS void CopyBytes(void* to, const void* from, size_t bytes) {
  auto* const destination = static_cast<volatile unsigned char*>(to);  // or it would become a call of memcpy
  const auto* const source = static_cast<const volatile unsigned char*>(from);
  for (size_t i = 0; i < bytes; ++i) destination[i] = source[i];
}

}  // namespace

FakeCudaCalls::~FakeCudaCalls() { ABSL_RAW_CHECK(counts() == Counts(), "everything has been given back"); }

void FakeCudaCalls::Launch(StreamHandle stream, absl::Duration time, std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  StreamOf(stream).work.push_back({.time = time, .run = std::move(work)});
}

void FakeCudaCalls::FailNext(const std::string& call, absl::Status error) {
  absl::MutexLock lock(&mutex_);
  failures_[call] = std::move(error);
}

void FakeCudaCalls::BreakAtNextWait(int device) {
  absl::MutexLock lock(&mutex_);
  breaking_.insert(device);
}

FakeCudaCalls::Counts FakeCudaCalls::counts() const {
  absl::MutexLock lock(&mutex_);
  const auto pinned = std::count_if(allocations_.begin(), allocations_.end(),
                                    [](const Allocation& allocation) { return allocation.device == kPinned; });
  return {.device_allocations = static_cast<int>(allocations_.size() - static_cast<size_t>(pinned)),
          .pinned_allocations = static_cast<int>(pinned),
          .streams = static_cast<int>(streams_.size()),
          .events = static_cast<int>(events_.size()),
          .registrations = static_cast<int>(registered_.size()),
          .imports = static_cast<int>(imports_.size())};
}

int FakeCudaCalls::copies() const {
  absl::MutexLock lock(&mutex_);
  return copies_;
}

int FakeCudaCalls::moves() const {
  absl::MutexLock lock(&mutex_);
  return moves_;
}

int FakeCudaCalls::errors_forgotten() const {
  absl::MutexLock lock(&mutex_);
  return errors_forgotten_;
}

absl::StatusOr<int> FakeCudaCalls::CountDevices() {
  if (devices_ == 0) return absl::UnavailableError("no GPU");
  return devices_;
}

absl::Status FakeCudaCalls::SelectDevice(int device) {
  absl::MutexLock lock(&mutex_);
  if (device < 0 || device >= devices_) return absl::UnavailableError(absl::StrCat("no GPU ", device));
  selected_[std::this_thread::get_id()] = device;
  return absl::OkStatus();
}

absl::StatusOr<CudaDeviceFacts> FakeCudaCalls::Describe(int device) {
  absl::MutexLock lock(&mutex_);
  ABSL_RAW_CHECK(device == Selected(), "the device is selected");
  return CudaDeviceFacts{
      .name = absl::StrCat("fake GPU ", device), .free_bytes = device_bytes_, .uuid = UuidOf(device)};
}

DeviceUuid FakeCudaCalls::UuidOf(int device) { return {0xfa, 0x4e, static_cast<uint8_t>(device)}; }

CudaIpcHandle FakeCudaCalls::Export(int device, size_t bytes) {
  absl::MutexLock lock(&mutex_);
  const CudaIpcHandle handle = {0xcd, static_cast<uint8_t>(exports_.size())};
  exports_.emplace(handle, Allocation{.device = device, .data = NewMemory(bytes), .bytes = bytes});
  return handle;
}

std::byte* FakeCudaCalls::Exported(const CudaIpcHandle& handle) {
  absl::MutexLock lock(&mutex_);
  return exports_.at(handle).data.get();
}

absl::StatusOr<absl::Span<std::byte>> FakeCudaCalls::OpenIpc(const CudaIpcHandle& handle) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status failure = TakeFailure("OpenIpc"); !failure.ok()) return failure;
  const auto found = exports_.find(handle);
  if (found == exports_.end() || found->second.device != Selected()) return absl::InternalError("no such handle");
  imports_.insert(found->second.data.get());
  return absl::MakeSpan(found->second.data.get(), found->second.bytes);
}

void FakeCudaCalls::CloseIpc(std::byte* data) {
  absl::MutexLock lock(&mutex_);
  const auto found = imports_.find(data);
  ABSL_RAW_CHECK(found != imports_.end(), "what is closed was opened");
  imports_.erase(found);
}

absl::Status FakeCudaCalls::RegisterPinned(absl::Span<std::byte> memory) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status failure = TakeFailure("RegisterPinned"); !failure.ok()) return failure;
  registered_.push_back(memory);
  return absl::OkStatus();
}

void FakeCudaCalls::UnregisterPinned(std::byte* data) {
  absl::MutexLock lock(&mutex_);
  const size_t freed = std::erase_if(registered_, [=](absl::Span<std::byte> memory) { return memory.data() == data; });
  ABSL_RAW_CHECK(freed == 1, "what is unregistered was registered");
}

absl::StatusOr<std::byte*> FakeCudaCalls::AllocateDevice(size_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status failure = TakeFailure("AllocateDevice"); !failure.ok()) return failure;
  allocations_.push_back({.device = Selected(), .data = NewMemory(bytes), .bytes = bytes});
  return allocations_.back().data.get();
}

void FakeCudaCalls::FreeDevice(std::byte* data) {
  absl::MutexLock lock(&mutex_);
  const int device = Selected();
  const size_t freed = std::erase_if(allocations_, [=](const Allocation& allocation) {
    return allocation.data.get() == data && allocation.device == device;
  });
  ABSL_RAW_CHECK(freed == 1, "freed memory is this device's");
}

absl::StatusOr<std::byte*> FakeCudaCalls::AllocatePinned(size_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status failure = TakeFailure("AllocatePinned"); !failure.ok()) return failure;
  allocations_.push_back({.device = kPinned, .data = NewMemory(bytes), .bytes = bytes});
  return allocations_.back().data.get();
}

void FakeCudaCalls::FreePinned(std::byte* data) {
  absl::MutexLock lock(&mutex_);
  const size_t freed = std::erase_if(allocations_, [=](const Allocation& allocation) {
    return allocation.data.get() == data && allocation.device == kPinned;
  });
  ABSL_RAW_CHECK(freed == 1, "freed memory is pinned");
}

absl::StatusOr<StreamHandle> FakeCudaCalls::CreateStream() {
  absl::MutexLock lock(&mutex_);
  if (absl::Status failure = TakeFailure("CreateStream"); !failure.ok()) return failure;
  auto stream = std::make_unique<FakeStream>(FakeStream{.device = Selected(), .now = {}, .work = {}});
  const StreamHandle handle = stream.get();
  streams_[handle] = std::move(stream);
  return handle;
}

void FakeCudaCalls::DestroyStream(StreamHandle stream) {
  absl::MutexLock lock(&mutex_);
  ABSL_RAW_CHECK(StreamOf(stream).work.empty(), "a stream's work is awaited before it is destroyed");
  streams_.erase(stream);
}

absl::StatusOr<CudaCalls::Event> FakeCudaCalls::CreateEvent() {
  absl::MutexLock lock(&mutex_);
  if (absl::Status failure = TakeFailure("CreateEvent"); !failure.ok()) return failure;
  auto event = std::make_unique<FakeEvent>(FakeEvent{.device = Selected(), .time = {}});
  const Event handle = event.get();
  events_[handle] = std::move(event);
  return handle;
}

void FakeCudaCalls::DestroyEvent(Event event) {
  absl::MutexLock lock(&mutex_);
  ABSL_RAW_CHECK(events_.erase(event) == 1, "an event is destroyed once");
}

absl::Status FakeCudaCalls::Copy(absl::Span<const CudaCopy> copies, Direction direction, StreamHandle stream) {
  absl::MutexLock lock(&mutex_);
  FakeStream& target = StreamOf(stream);
  if (absl::Status state = StateOf(target.device); !state.ok()) return state;
  absl::Status failure = copies.empty() ? absl::OkStatus() : TakeFailure("Copy");
  for (const CudaCopy& copy : copies.first(copies.size() - (failure.ok() ? 0 : 1))) {
    const bool to_device = direction == Direction::kToDevice;
    ABSL_RAW_CHECK(Holds(copy.to, copy.bytes, to_device ? target.device : kPinned), "a copy goes to what is there");
    ABSL_RAW_CHECK(Holds(copy.from, copy.bytes, to_device ? kPinned : target.device), "a copy takes what is there");
    target.work.push_back({.time = kCopyTime, .run = [copy] { CopyBytes(copy.to, copy.from, copy.bytes); }});
    ++copies_;
  }
  return failure;
}

absl::Status FakeCudaCalls::Move(absl::Span<const CudaCopy> pieces, StreamHandle stream) {
  absl::MutexLock lock(&mutex_);
  FakeStream& target = StreamOf(stream);
  if (absl::Status state = StateOf(target.device); !state.ok()) return state;
  if (absl::Status failure = TakeFailure("Move"); !failure.ok()) return failure;
  const auto there = [&](const void* data, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return Holds(data, bytes, target.device) || Holds(data, bytes, kPinned);
  };
  for (const CudaCopy& piece : pieces) {
    ABSL_RAW_CHECK(there(piece.to, piece.bytes), "a piece goes to what is there");
    ABSL_RAW_CHECK(piece.from == nullptr || there(piece.from, piece.bytes), "a piece comes from what is there");
  }
  ++moves_;
  target.work.push_back({.time = kMoveTime, .run = [list = std::vector<CudaCopy>(pieces.begin(), pieces.end())] {
                           for (const CudaCopy& piece : list) {
                             if (piece.from == nullptr) {
                               std::memset(piece.to, 0, piece.bytes);
                             } else {
                               CopyBytes(piece.to, piece.from, piece.bytes);
                             }
                           }
                         }});
  return absl::OkStatus();
}

absl::Status FakeCudaCalls::Record(Event event, StreamHandle stream) {
  absl::MutexLock lock(&mutex_);
  FakeStream& target = StreamOf(stream);
  if (absl::Status state = StateOf(target.device); !state.ok()) return state;
  FakeEvent& recorded = *events_.at(event);
  ABSL_RAW_CHECK(recorded.device == target.device, "event and stream are of one device");
  recorded.stream = stream;
  ++recorded.pending;
  target.work.push_back({.time = {}, .run = nullptr, .event = event});
  return absl::OkStatus();
}

absl::StatusOr<bool> FakeCudaCalls::Reached(Event event) {
  absl::MutexLock lock(&mutex_);
  const FakeEvent& asked = *events_.at(event);
  if (absl::Status state = StateOf(asked.device); !state.ok()) return state;
  return asked.pending == 0;
}

absl::Status FakeCudaCalls::Await(Event event) {
  absl::MutexLock lock(&mutex_);
  FakeEvent& awaited = *events_.at(event);
  if (breaking_.erase(awaited.device) > 0) {
    broken_.insert(awaited.device);
    for (auto& [handle, stream] : streams_) {
      if (stream->device == awaited.device) stream->work.clear();
    }
  }
  if (absl::Status state = StateOf(awaited.device); !state.ok()) return state;
  FakeStream& stream = StreamOf(awaited.stream);
  while (awaited.pending > 0) {
    const Work work = std::move(stream.work.front());
    stream.work.pop_front();
    stream.now += work.time;
    if (work.event != nullptr) {
      FakeEvent& reached = *events_.at(work.event);
      --reached.pending;
      reached.time = stream.now;
      continue;
    }
    mutex_.Unlock();
    work.run();
    mutex_.Lock();
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> FakeCudaCalls::Elapsed(Event from, Event to) {
  absl::MutexLock lock(&mutex_);
  const FakeEvent& first = *events_.at(from);
  const FakeEvent& last = *events_.at(to);
  ABSL_RAW_CHECK(first.pending == 0 && last.pending == 0, "events are awaited before they are compared");
  return last.time - first.time;
}

void FakeCudaCalls::ForgetError() {
  absl::MutexLock lock(&mutex_);
  ++errors_forgotten_;
}

std::unique_ptr<std::byte, void (*)(void*)> FakeCudaCalls::NewMemory(size_t bytes) {
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  std::unique_ptr<std::byte, void (*)(void*)> data(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)),
                                                   std::free);
  ABSL_RAW_CHECK(data != nullptr, "out of memory");
  std::memset(data.get(), static_cast<int>(kPoison), bytes);
  return data;
}

int FakeCudaCalls::Selected() const {
  const auto found = selected_.find(std::this_thread::get_id());
  ABSL_RAW_CHECK(found != selected_.end(), "a device is selected on this thread");
  return found->second;
}

absl::Status FakeCudaCalls::StateOf(int device) const {
  return broken_.contains(device) ? absl::InternalError("the device is broken") : absl::OkStatus();
}

absl::Status FakeCudaCalls::TakeFailure(const std::string& call) {
  const auto found = failures_.find(call);
  if (found == failures_.end()) return absl::OkStatus();
  absl::Status failure = std::move(found->second);
  failures_.erase(found);
  return failure;
}

bool FakeCudaCalls::Holds(const void* data, size_t bytes, int device) const {
  const auto* const first = static_cast<const std::byte*>(data);
  if (device == kPinned) {
    for (const absl::Span<std::byte> memory : registered_) {
      if (first >= memory.data() && first + bytes <= memory.data() + memory.size()) return true;
    }
  }
  return std::any_of(allocations_.begin(), allocations_.end(), [=](const Allocation& allocation) {
    return allocation.device == device && first >= allocation.data.get() &&
           first + bytes <= allocation.data.get() + allocation.bytes;
  });
}

FakeCudaCalls::FakeStream& FakeCudaCalls::StreamOf(StreamHandle stream) {
  const auto found = streams_.find(stream);
  ABSL_RAW_CHECK(found != streams_.end(), "the stream is there");
  ABSL_RAW_CHECK(found->second->device == Selected(), "the stream's device is selected on this thread");
  return *found->second;
}

}  // namespace tessera
