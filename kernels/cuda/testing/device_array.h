// Device memory for tests of device code. Compiled by nvcc or by the C++ compiler; a failing CUDA call fails the test.
#ifndef TESSERA_KERNELS_CUDA_TESTING_DEVICE_ARRAY_H_
#define TESSERA_KERNELS_CUDA_TESTING_DEVICE_ARRAY_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::cuda {

// Holds a copy of `host` on the device.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& host) : size_(host.size()) {
    EXPECT_EQ(cudaMalloc(&data_, size_ * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, host.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return static_cast<T*>(data_); }

  // After all work enqueued so far.
  std::vector<T> Read() const {
    std::vector<T> host(size_);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(host.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return host;
  }

 private:
  void* data_ = nullptr;
  size_t size_;
};

// Tests of instructions that exist on compute capability 9.0 alone; skipped on other GPUs.
class Sm90Test : public ::testing::Test {
 protected:
  void SetUp() override {
    cudaDeviceProp properties;
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    if (properties.major != 9) GTEST_SKIP() << properties.name << " is not of compute capability 9.0";
  }
};

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_TESTING_DEVICE_ARRAY_H_
