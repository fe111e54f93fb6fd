// Device memory with an owner, for programs that stop at the first CUDA error.
#ifndef TESSERA_TESTS_GPU_DEVICE_BUFFER_H_
#define TESSERA_TESTS_GPU_DEVICE_BUFFER_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace tessera::gpu_test {

// Ends the program with status 2 where a call failed.
inline void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}

class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes) : bytes_(bytes) {
    Check(cudaMalloc(&data_, std::max<size_t>(bytes, 256)), "cudaMalloc");
  }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  template <typename T>
  void Upload(const std::vector<T>& host) const {
    Check(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice), "upload");
  }
  template <typename T>
  std::vector<T> Download() const {
    std::vector<T> host(bytes_ / sizeof(T));
    Check(cudaMemcpy(host.data(), data_, host.size() * sizeof(T), cudaMemcpyDeviceToHost), "download");
    return host;
  }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

}  // namespace tessera::gpu_test

#endif  // TESSERA_TESTS_GPU_DEVICE_BUFFER_H_
