// Times steps on resident sequences on the GPU device: bf16, 32/8 heads of 128, pages of 64 tokens; each step appends a
// row, or a chunk of rows, to each sequence and attends. Prints JSON lines.
//
// `other_us` is what a step takes beside its kernel: from the call to its return, less the device's time between the
// copies. Then pages that go to the host and come back, and what that does to steps of another slot; alone with
// --moves.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/paged/paged_backend.h"
#include "server/device/cuda/cuda_device.h"
#include "server/device/cuda/pinned_region.h"
#include "server/device/cuda/real_cuda_calls.h"
#include "tests/gpu/resident_calls.h"

namespace tessera::testing {
namespace {

constexpr size_t kStagingBytes = size_t{1} << 30;
constexpr int64_t kFillTokens = 4096;

struct Load {
  int64_t sequences = 1;  // of each slot
  int64_t tokens = 1;     // of each sequence, the step's own among them
  int64_t rows = 1;       // of a step
  int64_t calls = 1;      // that a slot's sequences are spread over
  int slots = 1;
  int looks = CudaDeviceOptions().looks;
};

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

CacheProfile Profile() {
  CacheProfile profile;
  profile.name = "bench";
  profile.kv_heads = 8;
  profile.pages = 20000;
  return profile;
}

BatchOutcome RunOrSay(ResidentCalls& resident, int slot, const std::vector<DeviceJobPtr>& calls) {
  BatchOutcome outcome = resident.Run(slot, calls);
  if (!outcome.status.ok()) std::fprintf(stderr, "%s\n", outcome.status.ToString().c_str());
  return outcome;
}

// Sequences but for the tokens of a step, and the calls of that step.
std::vector<DeviceJobPtr> MakeStep(ResidentCalls& resident, const Load& load) {
  const AttentionParams params = ParamsFor(Profile(), 4);
  const std::vector<SequenceHandle> handles = *resident.sequences().Create("bench", load.sequences);
  std::vector<DeviceJobPtr> calls;
  std::vector<ExtendEntry> entries;
  const int64_t per_call = load.sequences / load.calls;
  for (size_t i = 0; i < handles.size(); ++i) {
    for (int64_t left = load.tokens - load.rows; left > 0; left -= kFillTokens) {
      const std::vector<DeviceJobPtr> filling = {
          *resident.Make("bench", params, {{handles[i], 0, 0, std::min(left, kFillTokens)}}, i)};
      RunOrSay(resident, 0, filling);
      ResidentCalls::Commit(filling);
    }
    entries.push_back({handles[i], 0, load.rows, load.rows});
    if (static_cast<int64_t>(entries.size()) < per_call) continue;
    calls.push_back(*resident.Make("bench", params, std::exchange(entries, {}), i));
  }
  return calls;
}

void Measure(const std::shared_ptr<StagingPool>& staging, const Load& load) {
  const auto device =
      *CudaDevice::Open({.slots = load.slots, .memory_fraction = 0.06, .looks = load.looks},
                        *cuda::CreateCudaBackend(0), staging, GetRealCudaCalls(), *cuda::CreatePagedBackend(0));
  ResidentCalls resident(Profile(), device.get());
  std::vector<std::vector<DeviceJobPtr>> steps;
  for (int slot = 0; slot < load.slots; ++slot) steps.push_back(MakeStep(resident, load));

  const double bytes = static_cast<double>(load.sequences * load.tokens) * 2 * 8 * 128 * 2;
  const int rounds = std::clamp(static_cast<int>(1e12 / (bytes + 1e6)), 30, 1000);
  std::vector<std::vector<double>> times(steps.size());
  std::vector<std::vector<StageTimes>> stages(steps.size());
  double begin_all = 0;
  std::barrier warm(load.slots, [&begin_all]() noexcept { begin_all = Seconds(); });
  const auto run = [&](int slot) {
    const auto place = static_cast<size_t>(slot);
    // A thread's first calls of CUDA take milliseconds.
    for (int i = 0; i < 20; ++i) RunOrSay(resident, slot, steps[place]);
    warm.arrive_and_wait();
    for (int i = 0; i < rounds; ++i) {
      const double begin = Seconds();
      const BatchOutcome outcome = RunOrSay(resident, slot, steps[place]);
      times[place].push_back(Seconds() - begin);
      stages[place].push_back(outcome.times);
    }
  };
  std::vector<std::thread> threads;
  for (int slot = 0; slot < load.slots; ++slot) threads.emplace_back(run, slot);
  for (std::thread& thread : threads) thread.join();
  const double wall = Seconds() - begin_all;

  std::vector<double> all, copy_in, compute, copy_out, other;
  for (size_t slot = 0; slot < steps.size(); ++slot) {
    for (size_t i = 0; i < times[slot].size(); ++i) {
      const StageTimes& of_step = stages[slot][i];
      all.push_back(times[slot][i] * 1e6);
      copy_in.push_back(absl::ToDoubleMicroseconds(of_step.copy_in));
      compute.push_back(absl::ToDoubleMicroseconds(of_step.compute));
      copy_out.push_back(absl::ToDoubleMicroseconds(of_step.copy_out));
      other.push_back(all.back() - compute.back());
    }
  }
  std::printf(
      "{\"sequences\": %lld, \"tokens\": %lld, \"rows\": %lld, \"calls\": %lld, \"slots\": %d, \"looks\": %d, "
      "\"p50_us\": %.1f, \"p99_us\": %.1f, \"copy_in_us\": %.1f, \"compute_us\": %.1f, \"copy_out_us\": %.1f, "
      "\"other_us\": %.1f, \"steps_per_s\": %.0f, \"kv_gb_per_s\": %.0f}\n",
      static_cast<long long>(load.sequences), static_cast<long long>(load.tokens), static_cast<long long>(load.rows),
      static_cast<long long>(load.calls), load.slots, load.looks, Quantile(all, 0.5), Quantile(all, 0.99),
      Quantile(copy_in, 0.5), Quantile(compute, 0.5), Quantile(copy_out, 0.5), Quantile(other, 0.5),
      static_cast<double>(all.size()) / wall, bytes * static_cast<double>(all.size()) / wall / 1e9);
  std::fflush(stdout);
}

// Eight pages go to the host by one batch and come back by the next, on slot 0, while slot 1 decodes: first alone, then
// beside these moves. A page has `layers` layers of 256 KiB.
void MeasureMoves(const std::shared_ptr<StagingPool>& staging, int layers) {
  constexpr int64_t kPages = 8;
  CacheProfile profile = Profile();
  profile.layers = layers;
  profile.pages = profile.host_pages = 512;
  const auto device = *CudaDevice::Open({.slots = 2, .memory_fraction = 0.06}, *cuda::CreateCudaBackend(0), staging,
                                        GetRealCudaCalls(), *cuda::CreatePagedBackend(0));
  ResidentCalls resident(profile, device.get());
  // Decodes 16 sequences of 1024 tokens; they are not idle as long as the calls live.
  const std::vector<DeviceJobPtr> decode = MakeStep(resident, {.sequences = 16, .tokens = 1024, .calls = 16});
  const SequenceHandle moved = resident.sequences().Create("bench", 1)->at(0);
  const AttentionParams params = ParamsFor(profile, 4);
  const auto use = [&](int64_t rows) {
    const std::vector<DeviceJobPtr> call = {*resident.Make("bench", params, {{moved, 0, 1, rows}}, 1)};
    const BatchOutcome outcome = RunOrSay(resident, 0, call);
    ResidentCalls::Commit(call);
    return outcome;
  };
  use(kPages * profile.page_tokens);

  std::vector<double> steps[2], out, back;
  for (const bool beside : {false, true}) {
    std::atomic<bool> over = false;
    std::thread mover([&] {
      while (beside && !over) {
        out.push_back(absl::ToDoubleMicroseconds(resident.Spill(0, kPages).times.copy_out));
        back.push_back(absl::ToDoubleMicroseconds(use(0).times.copy_in));
      }
    });
    for (int i = 0; i < 20; ++i) RunOrSay(resident, 1, decode);
    for (int i = 0; i < 1000; ++i) {
      const double begin = Seconds();
      RunOrSay(resident, 1, decode);
      steps[beside].push_back((Seconds() - begin) * 1e6);
    }
    over = true;
    mover.join();
  }
  const double gigabytes = static_cast<double>(kPages * profile.page_bytes()) / 1e9;
  std::printf(
      "{\"moved_pages\": %lld, \"page_bytes\": %lld, \"to_host_gb_per_s\": %.1f, \"from_host_gb_per_s\": %.1f, "
      "\"rounds\": %zu, \"step_p50_us\": %.1f, \"step_p99_us\": %.1f, \"step_p50_us_beside\": %.1f, "
      "\"step_p99_us_beside\": %.1f}\n",
      static_cast<long long>(kPages), static_cast<long long>(profile.page_bytes()),
      gigabytes / Quantile(out, 0.5) * 1e6, gigabytes / Quantile(back, 0.5) * 1e6, out.size(), Quantile(steps[0], 0.5),
      Quantile(steps[0], 0.99), Quantile(steps[1], 0.5), Quantile(steps[1], 0.99));
  std::fflush(stdout);
}

void MeasureAll() {
  const auto staging = std::make_shared<StagingPool>(*PinnedRegion::Allocate(kStagingBytes, GetRealCudaCalls()));
  for (const int looks : {CudaDeviceOptions().looks, 0}) {
    for (const int64_t tokens : {1, 8192, 65536}) Measure(staging, {.tokens = tokens, .looks = looks});
  }
  for (const int64_t calls : {1, 16, 256}) Measure(staging, {.sequences = 256, .tokens = 1024, .calls = calls});
  Measure(staging, {.sequences = 32, .tokens = 8192, .calls = 32});
  Measure(staging, {.sequences = 128, .tokens = 4096, .calls = 16});
  Measure(staging, {.sequences = 128, .tokens = 8192, .calls = 16});
  Measure(staging, {.tokens = 32768, .rows = 512});
  for (const int slots : {2, 4}) Measure(staging, {.sequences = 16, .tokens = 1024, .calls = 16, .slots = slots});
}

void MeasureAllMoves() {
  const auto staging = std::make_shared<StagingPool>(*PinnedRegion::Allocate(kStagingBytes, GetRealCudaCalls()));
  for (const int layers : {1, 32}) MeasureMoves(staging, layers);
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "--moves") != 0) tessera::testing::MeasureAll();
  tessera::testing::MeasureAllMoves();
  return 0;
}
