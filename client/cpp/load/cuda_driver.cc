#include "client/cpp/load/cuda_driver.h"

#include <dlfcn.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tessera::load {
namespace {

using Result = int;  // CUresult
using Pointer = unsigned long long;

constexpr Result kSuccess = 0;
constexpr Result kOutOfMemory = 2;

struct IpcHandle {
  char bytes[64];
};
struct Uuid {
  char bytes[16];
};

absl::Status ToStatus(Result result, absl::string_view what) {
  if (result == kSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": CUDA error ", result);
  return result == kOutOfMemory ? absl::ResourceExhaustedError(message) : absl::InternalError(message);
}

Pointer ToPointer(const std::byte* data) { return reinterpret_cast<Pointer>(data); }

}  // namespace

// As cuda.h declares them.
struct CudaDriver::Functions {
  Result (*init)(unsigned flags);
  Result (*device_get)(int* device, int ordinal);
  Result (*device_uuid)(Uuid* uuid, int device);
  Result (*retain_context)(void** context, int device);
  Result (*release_context)(int device);
  Result (*set_context)(void* context);
  Result (*allocate)(Pointer* data, size_t bytes);
  Result (*free)(Pointer data);
  Result (*to_device)(Pointer to, const void* from, size_t bytes);
  Result (*to_host)(void* to, Pointer from, size_t bytes);
  Result (*ipc_handle)(IpcHandle* handle, Pointer data);
};

absl::StatusOr<std::unique_ptr<CudaDriver>> CudaDriver::Open(int device) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // for as long as the process
  if (library == nullptr) return absl::UnavailableError("this machine has no CUDA driver");
  auto functions = std::make_unique<Functions>();
  const std::pair<const char*, void**> symbols[] = {
      {"cuInit", reinterpret_cast<void**>(&functions->init)},
      {"cuDeviceGet", reinterpret_cast<void**>(&functions->device_get)},
      {"cuDeviceGetUuid", reinterpret_cast<void**>(&functions->device_uuid)},
      {"cuDevicePrimaryCtxRetain", reinterpret_cast<void**>(&functions->retain_context)},
      {"cuDevicePrimaryCtxRelease_v2", reinterpret_cast<void**>(&functions->release_context)},
      {"cuCtxSetCurrent", reinterpret_cast<void**>(&functions->set_context)},
      {"cuMemAlloc_v2", reinterpret_cast<void**>(&functions->allocate)},
      {"cuMemFree_v2", reinterpret_cast<void**>(&functions->free)},
      {"cuMemcpyHtoD_v2", reinterpret_cast<void**>(&functions->to_device)},
      {"cuMemcpyDtoH_v2", reinterpret_cast<void**>(&functions->to_host)},
      {"cuIpcGetMemHandle", reinterpret_cast<void**>(&functions->ipc_handle)},
  };
  for (const auto& [name, function] : symbols) {
    *function = dlsym(library, name);
    if (*function == nullptr) return absl::UnavailableError(absl::StrCat("the CUDA driver has no ", name));
  }
  int number = 0;
  if (functions->init(0) != kSuccess || functions->device_get(&number, device) != kSuccess) {
    return absl::UnavailableError(absl::StrCat("this machine has no GPU ", device));
  }
  std::unique_ptr<CudaDriver> driver(new CudaDriver(std::move(functions), number));
  if (absl::Status status = ToStatus(driver->functions_->retain_context(&driver->context_, number), "a context");
      !status.ok()) {
    return status;
  }
  return driver;
}

CudaDriver::CudaDriver(std::unique_ptr<Functions> functions, int device)
    : functions_(std::move(functions)), device_(device) {}

CudaDriver::~CudaDriver() {
  if (context_ != nullptr) functions_->release_context(device_);
}

absl::StatusOr<CudaAllocation> CudaDriver::Allocate(size_t bytes) {
  Pointer data = 0;
  Uuid uuid;
  IpcHandle handle;
  absl::Status status = ToStatus(functions_->set_context(context_), "a context");
  if (status.ok()) status = ToStatus(functions_->device_uuid(&uuid, device_), "a device's UUID");
  if (status.ok()) status = ToStatus(functions_->allocate(&data, bytes), absl::StrCat("GPU memory: ", bytes, " bytes"));
  if (!status.ok()) return status;
  CudaAllocation allocation;
  allocation.memory = {reinterpret_cast<std::byte*>(data), bytes};
  status = ToStatus(functions_->ipc_handle(&handle, data), "a handle for another process");
  if (!status.ok()) {
    functions_->free(data);
    return status;
  }
  std::memcpy(allocation.handle.data(), handle.bytes, sizeof(handle));
  std::memcpy(allocation.device_uuid.data(), uuid.bytes, sizeof(uuid));
  return allocation;
}

void CudaDriver::Free(absl::Span<std::byte> memory) {
  if (functions_->set_context(context_) == kSuccess) functions_->free(ToPointer(memory.data()));
}

absl::Status CudaDriver::CopyIn(absl::Span<const std::byte> host, absl::Span<std::byte> device) {
  if (host.empty()) return absl::OkStatus();
  absl::Status status = ToStatus(functions_->set_context(context_), "a context");
  if (status.ok())
    status = ToStatus(functions_->to_device(ToPointer(device.data()), host.data(), host.size()), "a copy");
  return status;
}

absl::Status CudaDriver::CopyOut(absl::Span<const std::byte> device, absl::Span<std::byte> host) {
  if (host.empty()) return absl::OkStatus();
  absl::Status status = ToStatus(functions_->set_context(context_), "a context");
  if (status.ok()) status = ToStatus(functions_->to_host(host.data(), ToPointer(device.data()), host.size()), "a copy");
  return status;
}

}  // namespace tessera::load
