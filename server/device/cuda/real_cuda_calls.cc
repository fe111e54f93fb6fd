#include "server/device/cuda/real_cuda_calls.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/copy_pieces.h"
#include "kernels/cuda/cuda_status.h"

namespace tessera {
namespace {

using cuda::ToStatus;

// From `data` to the end of what is mapped there, by the driver: what another process says of its own is not to be
// believed. Small allocations share a mapping.
absl::StatusOr<size_t> MappedBytes(void* data) {
  using GetAddressRange = int (*)(unsigned long long* base, size_t* bytes, unsigned long long pointer);  // a CUresult
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  constexpr unsigned kSince = 3020;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &found, kSince, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || found == nullptr) {
    return absl::InternalError("the driver has no cuMemGetAddressRange");
  }
  unsigned long long base = 0;
  size_t bytes = 0;
  const auto address = reinterpret_cast<unsigned long long>(data);
  if (reinterpret_cast<GetAddressRange>(found)(&base, &bytes, address) != 0 || base > address) {
    return absl::InternalError("the driver does not know an imported allocation");
  }
  return bytes - (address - base);
}

class RealCudaCalls final : public CudaCalls {
 public:
  absl::StatusOr<int> CountDevices() override {
    int count = 0;
    const absl::Status status = ToStatus(cudaGetDeviceCount(&count), "looking for CUDA devices");
    if (!status.ok()) return status;
    return count;
  }

  absl::Status SelectDevice(int device) override {
    return ToStatus(cudaSetDevice(device), absl::StrCat("selecting CUDA device ", device));
  }

  absl::StatusOr<CudaDeviceFacts> Describe(int device) override {
    cudaDeviceProp properties;
    absl::Status status = ToStatus(cudaGetDeviceProperties(&properties, device), "looking at a CUDA device");
    size_t free = 0, total = 0;
    status.Update(ToStatus(cudaMemGetInfo(&free, &total), "looking at device memory"));
    if (!status.ok()) return status;
    CudaDeviceFacts facts{.name = properties.name, .free_bytes = static_cast<int64_t>(free)};
    static_assert(sizeof(properties.uuid.bytes) == sizeof(facts.uuid));
    std::memcpy(facts.uuid.data(), properties.uuid.bytes, sizeof(facts.uuid));
    return facts;
  }

  absl::StatusOr<std::byte*> AllocateDevice(size_t bytes) override {
    void* data = nullptr;
    const absl::Status status = ToStatus(cudaMalloc(&data, bytes), absl::StrCat("device memory: ", bytes, " bytes"));
    if (!status.ok()) return status;
    return static_cast<std::byte*>(data);
  }
  void FreeDevice(std::byte* data) override { cudaFree(data); }

  absl::StatusOr<std::byte*> AllocatePinned(size_t bytes) override {
    void* data = nullptr;
    const absl::Status status =
        ToStatus(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), absl::StrCat("pinned memory: ", bytes, " bytes"));
    if (!status.ok()) return status;
    return static_cast<std::byte*>(data);
  }
  void FreePinned(std::byte* data) override { cudaFreeHost(data); }
  absl::Status RegisterPinned(absl::Span<std::byte> memory) override {
    return ToStatus(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterPortable),
                    absl::StrCat("pinning ", memory.size(), " bytes"));
  }
  void UnregisterPinned(std::byte* data) override { cudaHostUnregister(data); }

  absl::StatusOr<absl::Span<std::byte>> OpenIpc(const CudaIpcHandle& handle) override {
    cudaIpcMemHandle_t opaque;
    static_assert(sizeof(opaque) == sizeof(handle));
    std::memcpy(&opaque, handle.data(), sizeof(opaque));
    void* data = nullptr;
    absl::Status status =
        ToStatus(cudaIpcOpenMemHandle(&data, opaque, cudaIpcMemLazyEnablePeerAccess), "opening an IPC handle");
    if (!status.ok()) return status;
    const absl::StatusOr<size_t> bytes = MappedBytes(data);
    if (bytes.ok()) return absl::MakeSpan(static_cast<std::byte*>(data), *bytes);
    cudaIpcCloseMemHandle(data);
    return bytes.status();
  }
  void CloseIpc(std::byte* data) override { cudaIpcCloseMemHandle(data); }

  absl::StatusOr<StreamHandle> CreateStream() override {
    cudaStream_t stream = nullptr;
    const absl::Status status =
        ToStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
    if (!status.ok()) return status;
    return stream;
  }
  void DestroyStream(StreamHandle stream) override { cudaStreamDestroy(static_cast<cudaStream_t>(stream)); }

  absl::StatusOr<Event> CreateEvent() override {
    cudaEvent_t event = nullptr;
    const absl::Status status = ToStatus(cudaEventCreateWithFlags(&event, cudaEventBlockingSync), "creating an event");
    if (!status.ok()) return status;
    return event;
  }
  void DestroyEvent(Event event) override { cudaEventDestroy(static_cast<cudaEvent_t>(event)); }

  absl::Status Copy(absl::Span<const CudaCopy> copies, Direction direction, StreamHandle stream) override {
    if (copies.empty()) return absl::OkStatus();
    const auto cuda_stream = static_cast<cudaStream_t>(stream);
    if (copies.size() == 1) {
      const cudaMemcpyKind kind = direction == Direction::kToDevice ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
      return ToStatus(cudaMemcpyAsync(copies[0].to, copies[0].from, copies[0].bytes, kind, cuda_stream), "copying");
    }
    // One by one, small pieces cost the host some microseconds each, and leave the copy engine idle in between.
    std::vector<void*> to;
    std::vector<const void*> from;
    std::vector<size_t> bytes;
    for (const CudaCopy& copy : copies) {
      to.push_back(copy.to);
      from.push_back(copy.from);
      bytes.push_back(copy.bytes);
    }
    cudaMemcpyAttributes attributes = {};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    size_t first = 0;  // from which piece on the attributes hold
    return ToStatus(
        cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), bytes.size(), &attributes, &first, 1, cuda_stream),
        "copying");
  }

  absl::Status Move(absl::Span<const CudaCopy> pieces, StreamHandle stream) override {
    std::vector<cuda::CopyPiece> list;
    list.reserve(pieces.size());
    for (const CudaCopy& piece : pieces) list.push_back({piece.to, piece.from, piece.bytes});
    return ToStatus(cuda::CopyPieces(list.data(), list.size(), static_cast<cudaStream_t>(stream)), "moving memory");
  }

  absl::Status Record(Event event, StreamHandle stream) override {
    return ToStatus(cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream)),
                    "recording an event");
  }

  absl::StatusOr<bool> Reached(Event event) override {
    const cudaError_t error = cudaEventQuery(static_cast<cudaEvent_t>(event));
    if (error == cudaErrorNotReady) {
      cudaGetLastError();  // no error, but remembered as one
      return false;
    }
    const absl::Status status = ToStatus(error, "looking at an event");
    if (!status.ok()) return status;
    return true;
  }

  absl::Status Await(Event event) override {
    return ToStatus(cudaEventSynchronize(static_cast<cudaEvent_t>(event)), "waiting for the device");
  }

  absl::StatusOr<absl::Duration> Elapsed(Event from, Event to) override {
    float milliseconds = 0;
    const absl::Status status = ToStatus(
        cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(from), static_cast<cudaEvent_t>(to)), "timing");
    if (!status.ok()) return status;
    return absl::Milliseconds(milliseconds);
  }

  void ForgetError() override { cudaGetLastError(); }
};

}  // namespace

CudaCalls* GetRealCudaCalls() {
  static RealCudaCalls calls;
  return &calls;
}

}  // namespace tessera
