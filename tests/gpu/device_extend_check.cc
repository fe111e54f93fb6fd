// Checks steps on resident sequences on a GPU: against the CPU through all that a cache does to its sequences, against
// the reference in double for types and layouts of pages that no profile has, and bit by bit against themselves alone,
// in company, in other slots and after their pages have been on the host.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/paged_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/paged/paged_backend.h"
#include "kernels/dtype_dispatch.h"
#include "kernels/half.h"
#include "kernels/reference/reference.h"
#include "kernels/testing/accuracy.h"
#include "kernels/testing/paged_batch.h"
#include "server/clock/clock.h"
#include "server/device/cpu_device.h"
#include "server/device/cuda/cuda_device.h"
#include "server/device/cuda/pinned_region.h"
#include "server/device/cuda/real_cuda_calls.h"
#include "tests/gpu/device_buffer.h"
#include "tests/gpu/resident_calls.h"
#include "tests/random/seed.h"

namespace tessera::testing {
namespace {

constexpr size_t kStagingBytes = size_t{1} << 30;

std::unique_ptr<CudaDevice> OpenGpu(int slots) {
  auto staging = std::make_shared<StagingPool>(*PinnedRegion::Allocate(kStagingBytes, GetRealCudaCalls()));
  return *CudaDevice::Open({.slots = slots, .memory_fraction = 0.1}, *cuda::CreateCudaBackend(0), std::move(staging),
                           GetRealCudaCalls(), *cuda::CreatePagedBackend(0));
}

std::unique_ptr<CpuDevice> OpenCpu() {
  return *CpuDevice::Make(MakeCpuBackend(0), kStagingBytes, 1, Clock::Real(), MakeCpuPagedBackend(0));
}

template <typename T>
T Pick(std::mt19937_64& random, const std::vector<T>& from) {
  return from[random() % from.size()];
}

// Half the distance of neighbours at 1; of float32 16 times that, for there it is the order of sums that counts.
double EpsilonOf(DType dtype) {
  return dtype == DType::kFloat32 ? 0x1p-20 : dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-8;
}

// How far apart two devices' answers to a call are at most, in units of what rounding explains. The more keys a row
// sees, the smaller o is, and its rounding. In float32 that of the scores shows, too: sums of head_dim products each,
// in another order on either side.
double Distance(ExtendJob& call, const std::vector<std::byte>& gpu, const std::vector<std::byte>& cpu) {
  const ExtendShape& shape = call.shape();
  const int64_t row = shape.params.q_heads * shape.params.head_dim;
  const double roundings = shape.params.dtype == DType::kFloat32 ? 64 : 16;
  double worst = gpu.size() == cpu.size() ? 0 : INFINITY;
  size_t element = 0;
  for (size_t i = 0; i < shape.entries.size(); ++i) {
    const int64_t before = call.lengths()[i] - shape.entries[i].q_tokens;  // keys that all rows see
    for (int64_t j = 0; j < shape.entries[i].q_tokens * row; ++j, ++element) {
      const double size = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, before + j / row + 1)));
      double a = 0, b = 0;
      DispatchDType(shape.params.dtype, [&]<typename T>(T) {
        a = ToFloat(reinterpret_cast<const T*>(gpu.data())[element]);
        b = ToFloat(reinterpret_cast<const T*>(cpu.data())[element]);
      });
      const double distance =
          std::abs(a - b) / (roundings * EpsilonOf(shape.params.dtype) * std::max(std::abs(b), size));
      worst = std::isnan(distance) ? INFINITY : std::max(worst, distance);
    }
  }
  for (size_t at = static_cast<size_t>(shape.q_bytes); at < cpu.size(); at += sizeof(float)) {
    float a = 0, b = 0;
    std::memcpy(&a, gpu.data() + at, sizeof(a));
    std::memcpy(&b, cpu.data() + at, sizeof(b));
    if (std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b)) continue;  // -inf too
    const double distance = std::abs(a - b) / (2e-4 * std::max(1.0f, std::abs(b)));
    worst = std::isnan(distance) ? INFINITY : std::max(worst, distance);
  }
  return worst;
}

// The same sequences on both devices, and the same done to them.
class Twins {
 public:
  Twins(const CacheProfile& profile, int32_t group, Device* gpu, Device* cpu)
      : profile_(profile), params_(ParamsFor(profile, group)), sides_{{profile, gpu}, {profile, cpu}} {}

  // Random life of up to eight sequences of two tenants. Returns the largest Distance.
  double Live(int batches, std::mt19937_64& random);

 private:
  struct Member {
    std::string tenant;
    SequenceHandle handles[2];
    std::vector<int64_t> lengths;  // one a layer

    int64_t longest() const { return *std::max_element(lengths.begin(), lengths.end()); }
  };

  void Grow(std::mt19937_64& random);
  void Shrink(std::mt19937_64& random);
  void Spill(std::mt19937_64& random);
  double Step(std::mt19937_64& random);

  const CacheProfile profile_;
  const AttentionParams params_;
  ResidentCalls sides_[2];
  std::vector<Member> members_;
};

double Twins::Live(int batches, std::mt19937_64& random) {
  double worst = 0;
  for (int batch = 0; batch < batches && worst <= 1; ++batch) {
    Grow(random);
    worst = std::max(worst, Step(random));
    Shrink(random);
    Spill(random);
  }
  return worst;
}

// A new sequence, or a fork of another.
void Twins::Grow(std::mt19937_64& random) {
  if (members_.size() == 8) return;
  Member member;
  if (members_.empty() || random() % 2 == 0) {
    member.tenant = std::string(1, static_cast<char>('a' + random() % 2));
    member.lengths.assign(static_cast<size_t>(profile_.layers), 0);
    for (int side = 0; side < 2; ++side)
      member.handles[side] = sides_[side].sequences().Create(member.tenant, 1)->at(0);
  } else {
    const Member& from = members_[random() % members_.size()];
    const int64_t length = static_cast<int64_t>(random() % static_cast<uint64_t>(from.longest() + 1));
    member.tenant = from.tenant;
    for (const int64_t of_layer : from.lengths) member.lengths.push_back(std::min(of_layer, length));
    for (int side = 0; side < 2; ++side) {
      member.handles[side] = *sides_[side].sequences().Fork(member.tenant, from.handles[side], length);
    }
  }
  members_.push_back(std::move(member));
}

// Cuts a sequence, or lets one go: its pages are another tenant's next.
void Twins::Shrink(std::mt19937_64& random) {
  const size_t place = random() % members_.size();
  Member& member = members_[place];
  if (random() % 3 == 0) {
    const int64_t length = static_cast<int64_t>(random() % static_cast<uint64_t>(member.longest() + 1));
    for (int64_t& of_layer : member.lengths) of_layer = std::min(of_layer, length);
    for (int side = 0; side < 2; ++side) {
      ASSERT_TRUE(sides_[side].sequences().Truncate(member.tenant, member.handles[side], length).ok());
    }
  } else if (members_.size() > 5) {
    for (int side = 0; side < 2; ++side) {
      ASSERT_TRUE(sides_[side].sequences().Release(member.tenant, member.handles[side]).ok());
    }
    members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(place));
  }
}

// Pages of whichever have been idle for longest; they come back with their next step.
void Twins::Spill(std::mt19937_64& random) {
  if (random() % 3 != 0) return;
  const auto pages = static_cast<int64_t>(random() % static_cast<uint64_t>(profile_.host_pages + 1));
  for (ResidentCalls& side : sides_) ASSERT_TRUE(side.Spill(0, pages).status.ok());
  const CacheCounts gpu = sides_[0].sequences().counts(), cpu = sides_[1].sequences().counts();
  EXPECT_EQ(gpu.pages_to_host, cpu.pages_to_host);
  EXPECT_EQ(gpu.pages_from_host, cpu.pages_from_host);
}

// One batch: of each sequence a layer or several, by one token or a chunk, each sequence's entries a call.
double Twins::Step(std::mt19937_64& random) {
  std::vector<DeviceJobPtr> calls[2];
  for (Member& member : members_) {
    if (random() % 5 == 0) continue;
    const bool chunk = random() % 4 == 0;
    std::vector<ExtendEntry> entries[2];
    for (int32_t layer = 0; layer < profile_.layers; ++layer) {
      if (random() % 4 == 0) continue;
      int64_t& length = member.lengths[static_cast<size_t>(layer)];
      int64_t append = chunk ? static_cast<int64_t>(random() % 300) : Pick<int64_t>(random, {0, 1, 1, 1, 2, 5});
      append = std::min(append, profile_.max_tokens - length);
      const int64_t q = random() % 6 == 0 ? static_cast<int64_t>(random() % 4) : append;
      length += append;
      for (int side = 0; side < 2; ++side) entries[side].push_back({member.handles[side], layer, q, append});
    }
    if (entries[0].empty()) continue;
    const uint64_t seed = random();
    for (int side = 0; side < 2; ++side) {
      calls[side].push_back(*sides_[side].Make(member.tenant, params_, entries[side], seed));
    }
  }
  if (calls[0].empty()) return 0;
  std::vector<std::vector<std::byte>> outputs[2];
  for (int side = 0; side < 2; ++side) {
    const BatchOutcome outcome = sides_[side].Run(0, calls[side]);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    outputs[side] = OutputsOf(calls[side]);
  }
  double worst = 0;
  for (size_t i = 0; i < calls[0].size(); ++i) {
    worst = std::max(worst, Distance(static_cast<ExtendJob&>(*calls[0][i]), outputs[0][i], outputs[1][i]));
  }
  for (const auto& of_side : calls) ResidentCalls::Commit(of_side);
  return worst;
}

TEST(GpuExtendTest, SequencesLiveAsTheyDoOnTheCpu) {
  std::mt19937_64 random(RandomSeed());
  const auto gpu = OpenGpu(/*slots=*/1);
  const auto cpu = OpenCpu();
  for (int i = 0; i < 16; ++i) {
    CacheProfile profile;
    profile.name = "random";
    profile.layers = 1 + static_cast<int>(random() % 3);
    profile.kv_heads = Pick<int32_t>(random, {1, 2, 3, 8});
    profile.head_dim = Pick<int32_t>(random, {64, 128, 128, 256, 72});
    profile.dtype = Pick<DType>(random, {DType::kFloat16, DType::kBFloat16, DType::kBFloat16, DType::kFloat32});
    profile.page_tokens = Pick<int64_t>(random, {1, 16, 64, 64, 256});
    profile.max_tokens = 1000;
    profile.pages = static_cast<int32_t>(9 * 2 * ((1000 + profile.page_tokens - 1) / profile.page_tokens));
    profile.host_pages = profile.pages / 3;
    profile.float8 = random() % 4 == 0;
    const int32_t group = Pick<int32_t>(random, {1, 2, 4, 8});
    Twins twins(profile, group, gpu.get(), cpu.get());
    EXPECT_LE(twins.Live(30, random), 1) << Name(profile.dtype) << " in " << Name(profile.kv_dtype()) << ", heads "
                                         << profile.kv_heads << "x" << group << ", d " << profile.head_dim
                                         << ", pages of " << profile.page_tokens << ", layers " << profile.layers;
  }
  EXPECT_EQ(gpu->memory_in_use(), 0);
  EXPECT_GT(gpu->launch_memory(), 0);
  EXPECT_EQ(gpu->staging().in_use(), 0);
}

// bf16, 32/8 heads of 128, two layers.
CacheProfile LargeProfile() {
  CacheProfile profile;
  profile.name = "large";
  profile.layers = 2;
  profile.kv_heads = 8;
  profile.pages = 8192;
  return profile;
}

// `count` sequences of random lengths, a call for each `per_call` of them that appends a row and attends.
std::vector<DeviceJobPtr> Decode(ResidentCalls& resident, size_t count, size_t per_call, std::mt19937_64& random) {
  const AttentionParams params = ParamsFor(LargeProfile(), 4);
  const std::vector<SequenceHandle> handles = *resident.sequences().Create("a", static_cast<int64_t>(count));
  std::vector<DeviceJobPtr> calls;
  std::vector<ExtendEntry> entries;
  for (size_t i = 0; i < count; ++i) {
    const int64_t length = Pick<int64_t>(random, {0, 1, 63, 64, 65, 511, 512, 513, 1000, 2500});
    if (length > 0) {
      const std::vector<DeviceJobPtr> filling = {*resident.Make("a", params, {{handles[i], 1, 0, length}}, random())};
      EXPECT_TRUE(resident.Run(0, filling).status.ok());
      ResidentCalls::Commit(filling);
    }
    entries.push_back({handles[i], 1, 1, 1});
    if (entries.size() < per_call && i + 1 < count) continue;
    calls.push_back(*resident.Make("a", params, std::exchange(entries, {}), random()));
  }
  return calls;
}

TEST(GpuExtendTest, NoBitDependsOnCompany) {
  std::mt19937_64 random(RandomSeed());
  const auto gpu = OpenGpu(/*slots=*/1);
  ResidentCalls resident(LargeProfile(), gpu.get());
  const std::vector<DeviceJobPtr> calls = Decode(resident, 256, 1, random);
  const BatchOutcome outcome = resident.Run(0, calls);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_GT(outcome.times.copy_in, absl::ZeroDuration());
  EXPECT_GT(outcome.times.compute, absl::ZeroDuration());
  EXPECT_GT(outcome.times.copy_out, absl::ZeroDuration());
  EXPECT_GT(outcome.stats.flops, 0);
  const std::vector<std::vector<std::byte>> together = OutputsOf(calls);
  PoisonOutputs(calls);
  for (const DeviceJobPtr& call : calls) ASSERT_TRUE(resident.Run(0, {call}).status.ok());
  EXPECT_EQ(OutputsOf(calls), together);
}

// Reads of all `handles`, one a call; `seed` makes their queries.
std::vector<std::vector<std::byte>> ReadAll(ResidentCalls& resident, const CacheProfile& profile,
                                            const std::vector<SequenceHandle>& handles, uint64_t seed) {
  std::vector<DeviceJobPtr> calls;
  for (const SequenceHandle& handle : handles) {
    calls.push_back(*resident.Make("a", ParamsFor(profile, 4), {{handle, 0, 2, 0}, {handle, 1, 1, 0}}, seed));
  }
  const BatchOutcome outcome = resident.Run(0, calls);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  std::vector<std::vector<std::byte>> outputs = OutputsOf(calls);
  ResidentCalls::Commit(calls);
  return outputs;
}

// Everything goes to the host, another tenant has the pages meanwhile, and everything comes back.
TEST(GpuExtendTest, PagesThatWereOnTheHostAreTheSameBits) {
  std::mt19937_64 random(RandomSeed());
  const auto gpu = OpenGpu(/*slots=*/1);
  for (const bool float8 : {false, true}) {
    CacheProfile profile = LargeProfile();
    profile.pages = profile.host_pages = 400;
    profile.float8 = float8;
    ResidentCalls resident(profile, gpu.get());
    const std::vector<SequenceHandle> handles = *resident.sequences().Create("a", 24);
    for (const SequenceHandle& handle : handles) {
      const int64_t length = Pick<int64_t>(random, {1, 63, 64, 65, 200, 512, 1000});
      const std::vector<DeviceJobPtr> filling = {
          *resident.Make("a", ParamsFor(profile, 4), {{handle, 0, 0, length}, {handle, 1, 0, length}}, random())};
      ASSERT_TRUE(resident.Run(0, filling).status.ok());
      ResidentCalls::Commit(filling);
    }
    const uint64_t seed = random();
    const std::vector<std::vector<std::byte>> before = ReadAll(resident, profile, handles, seed);
    const int64_t used = profile.pages - resident.sequences().counts().device.free;
    for (int round = 0; round < 2; ++round) {
      ASSERT_TRUE(resident.Spill(0, profile.pages).status.ok());
      EXPECT_EQ(resident.sequences().counts().pages_to_host, used * (round + 1));
      EXPECT_EQ(resident.sequences().counts().device.free, profile.pages);
      const SequenceHandle other = resident.sequences().Create("b", 1)->at(0);
      const int64_t rows = profile.pages * profile.page_tokens;
      const std::vector<DeviceJobPtr> overwriting = {
          *resident.Make("b", ParamsFor(profile, 4), {{other, 0, 0, rows}, {other, 1, 0, rows}}, random())};
      ASSERT_TRUE(resident.Run(0, overwriting).status.ok());
      ResidentCalls::Commit(overwriting);
      ASSERT_TRUE(resident.sequences().Release("b", other).ok());
      EXPECT_EQ(ReadAll(resident, profile, handles, seed), before) << Name(profile.kv_dtype()) << ", round " << round;
      EXPECT_EQ(resident.sequences().counts().pages_from_host, used * (round + 1));
    }
  }
  EXPECT_EQ(gpu->memory_in_use(), 0);
}

TEST(GpuExtendTest, SlotsDoNotDisturbOneAnother) {
  constexpr int kSlots = 4;
  std::mt19937_64 random(RandomSeed());
  const auto gpu = OpenGpu(kSlots);
  ResidentCalls resident(LargeProfile(), gpu.get());
  std::vector<std::vector<DeviceJobPtr>> batches;
  std::vector<std::vector<std::vector<std::byte>>> expected;
  for (int slot = 0; slot < kSlots; ++slot) {
    batches.push_back(Decode(resident, 24, 8, random));
    ASSERT_TRUE(resident.Run(0, batches.back()).status.ok());
    expected.push_back(OutputsOf(batches.back()));
  }
  std::vector<std::thread> threads;
  for (int slot = 0; slot < kSlots; ++slot) {
    threads.emplace_back([&, slot] {
      const std::vector<DeviceJobPtr>& calls = batches[static_cast<size_t>(slot)];
      for (int round = 0; round < 100; ++round) {
        PoisonOutputs(calls);
        EXPECT_TRUE(resident.Run(slot, calls).status.ok());
        EXPECT_EQ(OutputsOf(calls), expected[static_cast<size_t>(slot)]) << "slot " << slot << ", round " << round;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A batch of any types and layout as one call: its tensors in staging memory, its pages on the device.
class ShippedBatch {
 public:
  ShippedBatch(PagedBatch& host, Device* device) : host_(host), device_(device) {
    pages_ = *device->TakePages(host.memory().size());
    Copy(pages_->data(), host.memory().data(), host.memory().size());
    size_t input_bytes = 0, output_bytes = 0;
    for (size_t i = 0; i < host.size(); ++i) {
      TestSequence& sequence = host.contiguous()[i];
      for (TestTensor* tensor : {&sequence.q, &sequence.k, &sequence.v}) input_bytes += Rounded(*tensor);
      for (TestTensor* tensor : {&sequence.o, &sequence.lse}) output_bytes += Rounded(*tensor);
    }
    input_ = *device->staging().Allocate(input_bytes);
    output_ = *device->staging().Allocate(output_bytes);
    std::byte* in = input_.data();
    std::byte* out = output_.data();
    for (size_t i = 0; i < host.size(); ++i) {
      TestSequence& sequence = host.contiguous()[i];
      PagedSequence view = host.View(i);
      view.q = Ship(view.q, sequence.q, &in);
      // The new rows are the last of the contiguous k and v.
      view.k = Ship(view.k, sequence.k, &in);
      view.v = Ship(view.v, sequence.v, &in);
      view.o = Ship(view.o, sequence.o, &out);
      view.lse = Ship(view.lse, sequence.lse, &out);
      view.layer.k_pages = pages_->data() + (static_cast<std::byte*>(view.layer.k_pages) - host.memory().data());
      view.layer.v_pages = pages_->data() + (static_cast<std::byte*>(view.layer.v_pages) - host.memory().data());
      views_.push_back(view);
    }
  }

  BatchOutcome Run() {
    const ExtendItem item = {.fills = {},
                             .copies = {},
                             .input = {input_.data(), input_.size()},
                             .output = {output_.data(), output_.size()},
                             .sequences = views_};
    BatchOutcome outcome = device_->Extend(0, host_.params(), {&item, 1}, {});
    Copy(host_.memory().data(), pages_->data(), host_.memory().size());
    std::byte* out = output_.data();
    for (size_t i = 0; i < host_.size(); ++i) {
      TestSequence& sequence = host_.contiguous()[i];
      for (TestTensor* tensor : {&sequence.o, &sequence.lse}) {
        std::memcpy(tensor->memory().data(), out, tensor->memory().size());
        out += Rounded(*tensor);
      }
    }
    return outcome;
  }

 private:
  static size_t Rounded(TestTensor& tensor) { return (tensor.memory().size() + 255) / 256 * 256; }
  static void Copy(void* to, const void* from, size_t bytes) {
    gpu_test::Check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "copying");
  }
  // Where `pointer` into the tensor goes, which is copied to `*to`.
  template <typename T>
  static T* Ship(T* pointer, TestTensor& tensor, std::byte** to) {
    std::byte* const place = std::exchange(*to, *to + Rounded(tensor));
    std::memcpy(place, tensor.memory().data(), tensor.memory().size());
    if (pointer == nullptr) return nullptr;
    return reinterpret_cast<T*>(place + (reinterpret_cast<const std::byte*>(pointer) - tensor.memory().data()));
  }

  PagedBatch& host_;
  Device* const device_;
  std::unique_ptr<StagingPool::Region> pages_;
  StagingBuffer input_, output_;
  std::vector<PagedSequence> views_;
};

TEST(GpuExtendTest, PagesOfAnyTypeAndLayout) {
  std::mt19937_64 random(RandomSeed());
  const auto gpu = OpenGpu(/*slots=*/1);
  for (int i = 0; i < 40; ++i) {
    AttentionParams attention;
    attention.dtype = Pick<DType>(random, {DType::kFloat16, DType::kBFloat16});
    attention.kv_heads = Pick<int32_t>(random, {1, 2, 4});
    attention.q_heads = attention.kv_heads * Pick<int32_t>(random, {1, 4, 8});
    attention.head_dim = Pick<int32_t>(random, {64, 128, 256});
    attention.scale = 1 / std::sqrt(static_cast<float>(attention.head_dim));
    attention.mask = Mask::Causal();
    PageShape shape;
    shape.cache_dtype = random() % 3 != 0 ? CacheDType::kFloat8 : CacheDTypeFor(attention.dtype);
    shape.page_tokens = Pick<int64_t>(random, {1, 16, 64});
    shape.layout = Pick<PageLayout>(random, {PageLayout::kTokensOuter, PageLayout::kHeadsOuter, PageLayout::kPadded});
    std::vector<PagedLengths> lengths;
    for (uint64_t n = 0; n < 1 + random() % 5; ++n) {
      const int64_t length = Pick<int64_t>(random, {0, 1, 15, 16, 17, 63, 64, 65, 400, 513, 1500});
      const int64_t rows = std::min<int64_t>(length, Pick<int64_t>(random, {0, 1, 1, 1, 3, 20, 60}));
      lengths.push_back({.q_len = rows, .kv_len = length, .append_len = random() % 3 == 0 ? 0 : rows});
    }
    PagedBatch host(attention, shape, lengths, random());
    std::vector<ReferenceOutput> expected;
    for (size_t j = 0; j < host.size(); ++j) {
      expected.push_back(AttendInDouble(attention, host.contiguous().View(j)));
    }
    ShippedBatch shipped(host, gpu.get());
    const BatchOutcome outcome = shipped.Run();
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    const std::string what = absl::StrCat("case ", i, ": ", Name(attention.dtype), " in ", Name(shape.cache_dtype),
                                          ", d ", attention.head_dim, ", pages of ", shape.page_tokens);
    EXPECT_TRUE(host.PagesAreAsExpected()) << what;
    for (size_t j = 0; j < host.size(); ++j) {
      const Deviation error = DeviationFrom(expected[j], attention, host.contiguous()[j]);
      // Values reach 4 and a little more.
      EXPECT_LE(error.o, 8 * EpsilonOf(attention.dtype)) << what << ", sequence " << j;
      EXPECT_LE(error.lse, 1e-3) << what << ", sequence " << j;
    }
  }
}

}  // namespace
}  // namespace tessera::testing
