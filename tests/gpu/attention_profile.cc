// One call of one kernel family, for a profiler, and the traffic model's bytes for the same call as a line of JSON.
//
//   attention_profile FAMILY N HEADS      full attention, N x N, head_dim 128, fp16
#include <cuda_runtime_api.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "kernels/half.h"
#include "kernels/traffic_model.h"
#include "tests/gpu/c_api.h"
#include "tests/gpu/device_buffer.h"

namespace tessera::gpu_test {

constexpr int kHeadDim = 128;
constexpr int64_t kTileRows = 128;  // query rows of a tile at this head_dim, in every family
constexpr int kElementBytes = 2;

int Main(const std::string& family, int64_t n, int heads) {
  const TrafficRow model = ModelTraffic(n, kTileRows, kHeadDim, kElementBytes).Total();
  const bool standard = family == "standard";
  std::printf("{\"family\": \"%s\", \"n\": %" PRId64 ", \"heads\": %d, \"model_read\": %" PRId64
              ", \"model_write\": %" PRId64 "}\n",
              family.c_str(), n, heads, heads * (standard ? model.standard_read : model.tiled_read),
              heads * (standard ? model.standard_write : model.tiled_write));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<Half> values(n * heads * kHeadDim);
  const size_t bytes = values.size() * kElementBytes;
  DeviceBuffer q(bytes), k(bytes), v(bytes), o(bytes);
  for (const DeviceBuffer* buffer : {&q, &k, &v}) {
    for (Half& value : values) value = FromFloat<Half>(normal(random));
    Check(cudaMemcpy(buffer->as<void>(), values.data(), bytes, cudaMemcpyHostToDevice), "upload");
  }
  constexpr int kFloat16 = 1;
  const int status = tessera_forward(family.c_str(), kFloat16, heads, heads, kHeadDim, 0.088f, -1, -1, 0, 1, &n, &n,
                                     q.as<void>(), k.as<void>(), v.as<void>(), o.as<void>(), nullptr, nullptr);
  Check(cudaDeviceSynchronize(), "forward");
  return status == 0 ? 0 : 1;
}

}  // namespace tessera::gpu_test

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: attention_profile FAMILY N HEADS\n"), 64;
  return tessera::gpu_test::Main(argv[1], std::atoll(argv[2]), std::atoi(argv[3]));
}
