// Times batches on the GPU device, by size of the calls, calls a batch, and slots. Prints JSON lines.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "server/device/cuda/cuda_device.h"
#include "server/device/cuda/pinned_region.h"
#include "server/device/cuda/real_cuda_calls.h"
#include "tests/gpu/gpu_calls.h"

namespace tessera::testing {
namespace {

constexpr size_t kStagingBytes = size_t{3} << 30;

struct Load {
  uint32_t tokens;
  int calls;  // a batch
  int slots;
};

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void Measure(const std::shared_ptr<StagingPool>& staging, const Load& load) {
  const auto device = *CudaDevice::Open({.slots = load.slots, .memory_fraction = 0.2}, *cuda::CreateCudaBackend(0),
                                        staging, GetRealCudaCalls());
  std::mt19937_64 rng(1);
  std::vector<std::vector<std::shared_ptr<AttendJob>>> batches(static_cast<size_t>(load.slots));
  double bytes = 0;
  for (auto& calls : batches) {
    for (int i = 0; i < load.calls; ++i) calls.push_back(MakeGpuCall(*staging, load.tokens, rng));
  }
  for (const auto& call : batches[0]) bytes += static_cast<double>(call->input().size() + call->output().size());
  const int rounds = std::clamp(static_cast<int>(2e9 / bytes), 5, 200);

  std::vector<double> times;
  std::vector<StageTimes> stages(static_cast<size_t>(load.slots));
  std::vector<std::vector<double>> slot_times(static_cast<size_t>(load.slots));
  double begin_all = 0;
  std::barrier warm(load.slots, [&begin_all]() noexcept { begin_all = Seconds(); });
  const auto run = [&](int slot) {
    const auto place = static_cast<size_t>(slot);
    const std::vector<BatchItem> items = ItemsOf(batches[place]);
    // A thread's first calls of CUDA take milliseconds.
    for (int i = 0; i < 3; ++i) device->Run(slot, GpuParams(), items, {});
    warm.arrive_and_wait();
    for (int i = 0; i < rounds; ++i) {
      const double begin = Seconds();
      const BatchOutcome outcome = device->Run(slot, GpuParams(), items, {});
      if (!outcome.status.ok()) std::fprintf(stderr, "%s\n", outcome.status.ToString().c_str());
      slot_times[place].push_back(Seconds() - begin);
      stages[place].copy_in += outcome.times.copy_in;
      stages[place].compute += outcome.times.compute;
      stages[place].copy_out += outcome.times.copy_out;
    }
  };
  std::vector<std::thread> threads;
  for (int slot = 0; slot < load.slots; ++slot) threads.emplace_back(run, slot);
  for (std::thread& thread : threads) thread.join();
  const double wall = Seconds() - begin_all;
  StageTimes sum;
  for (size_t slot = 0; slot < stages.size(); ++slot) {
    times.insert(times.end(), slot_times[slot].begin(), slot_times[slot].end());
    sum.copy_in += stages[slot].copy_in;
    sum.compute += stages[slot].compute;
    sum.copy_out += stages[slot].copy_out;
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  const double batch_count = static_cast<double>(times.size());
  const double stage_seconds = absl::ToDoubleSeconds(sum.copy_in + sum.compute + sum.copy_out);
  std::printf(
      "{\"tokens\": %u, \"calls\": %d, \"slots\": %d, \"median_us\": %.1f, \"copy_in_us\": %.1f, "
      "\"compute_us\": %.1f, \"copy_out_us\": %.1f, \"gb_per_s\": %.2f, \"stages_over_wall\": %.2f}\n",
      load.tokens, load.calls, load.slots, times[times.size() / 2] * 1e6,
      absl::ToDoubleMicroseconds(sum.copy_in) / batch_count, absl::ToDoubleMicroseconds(sum.compute) / batch_count,
      absl::ToDoubleMicroseconds(sum.copy_out) / batch_count, bytes * batch_count / wall / 1e9, stage_seconds / wall);
  std::fflush(stdout);
}

void MeasureAll() {
  const auto staging = std::make_shared<StagingPool>(*PinnedRegion::Allocate(kStagingBytes, GetRealCudaCalls()));
  for (const int slots : {1, 4}) {
    for (const uint32_t tokens : {1, 16, 128, 1024}) {
      for (const int calls : {1, 16}) Measure(staging, {tokens, calls, slots});
    }
  }
  for (const int slots : {1, 2, 3, 4, 6}) Measure(staging, {4096, 1, slots});
}

}  // namespace
}  // namespace tessera::testing

int main() {
  tessera::testing::MeasureAll();
  return 0;
}
