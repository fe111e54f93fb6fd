#include "server/device/cpu_device.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "server/clock/fake_clock.h"

namespace tessera {
namespace {

// Records what it is given; takes `time` of the clock.
class FakeBackend final : public AttentionBackend {
 public:
  FakeBackend(FakeClock* clock, std::vector<int64_t>* lengths) : clock_(clock), lengths_(lengths) {}

  absl::string_view name() const override { return "standard"; }
  absl::Status Forward(const AttentionParams& params, absl::Span<const SequenceView> sequences, StreamHandle stream,
                       ForwardStats* stats) override {
    EXPECT_EQ(stream, nullptr);
    for (const SequenceView& sequence : sequences) lengths_->push_back(sequence.q_len);
    stats->flops = 42;
    clock_->Advance(absl::Milliseconds(3));
    return params.head_dim == 64 ? absl::OkStatus() : absl::ResourceExhaustedError("scratch");
  }

 private:
  FakeClock* const clock_;
  std::vector<int64_t>* const lengths_;
};

std::vector<SequenceView> Sequences(const std::vector<int64_t>& lengths) {
  std::vector<SequenceView> sequences(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) sequences[i].q_len = lengths[i];
  return sequences;
}

TEST(CpuDevice, RunsAllSequencesOfAllItemsAtOnce) {
  FakeClock clock;
  std::vector<int64_t> lengths;
  auto device = *CpuDevice::Make(std::make_unique<FakeBackend>(&clock, &lengths), 1 << 20, 2, &clock);
  const std::vector<SequenceView> first = Sequences({1, 2});
  const std::vector<SequenceView> second = Sequences({3});
  const std::vector<BatchItem> items = {{{}, {}, first}, {{}, {}, second}};
  for (const int slot : {0, 1, 0}) {
    lengths.clear();
    const BatchOutcome outcome = device->Run(slot, AttentionParams(), items, {});
    EXPECT_TRUE(outcome.status.ok());
    EXPECT_THAT(lengths, testing::ElementsAre(1, 2, 3));
    EXPECT_EQ(outcome.stats.flops, 42);
    EXPECT_EQ(outcome.times.compute, absl::Milliseconds(3));
    EXPECT_EQ(outcome.times.copy_in, absl::ZeroDuration());
  }
}

TEST(CpuDevice, BatchOfManySequencesLeavesNoRoomBehind) {
  FakeClock clock;
  std::vector<int64_t> lengths;
  auto device = *CpuDevice::Make(std::make_unique<FakeBackend>(&clock, &lengths), 1 << 20, 1, &clock);
  const std::vector<SequenceView> many(CpuDevice::kKeptSequences + 1);
  device->Run(0, AttentionParams(), {{{{}, {}, many}}}, {});
  EXPECT_EQ(lengths.size(), many.size());
  EXPECT_LE(device->kept_sequences(0), CpuDevice::kKeptSequences);
  const std::vector<SequenceView> usual(100);
  device->Run(0, AttentionParams(), {{{{}, {}, usual}}}, {});
  EXPECT_GE(device->kept_sequences(0), usual.size());
}

TEST(CpuDevice, ErrorsConcernTheBatchAlone) {
  FakeClock clock;
  std::vector<int64_t> lengths;
  auto device = *CpuDevice::Make(std::make_unique<FakeBackend>(&clock, &lengths), 1 << 20, 1, &clock);
  AttentionParams params;
  params.head_dim = 72;
  const BatchOutcome outcome = device->Run(0, params, {}, {});
  EXPECT_EQ(outcome.status, absl::ResourceExhaustedError("scratch"));
  EXPECT_FALSE(outcome.sticky);
}

TEST(CpuDevice, DescribesItself) {
  FakeClock clock;
  std::vector<int64_t> lengths;
  auto device = *CpuDevice::Make(std::make_unique<FakeBackend>(&clock, &lengths), 1 << 20, 3, &clock);
  EXPECT_EQ(device->info().kernel, "standard");
  EXPECT_EQ(device->info().slots, 3);
  EXPECT_FALSE(device->info().name.empty());
  EXPECT_EQ(device->staging().capacity(), size_t{1} << 20);
}

TEST(CpuDevice, StagingMemoryThatCannotBeHadIsAnError) {
  std::vector<int64_t> lengths;
  FakeClock clock;
  EXPECT_EQ(
      CpuDevice::Make(std::make_unique<FakeBackend>(&clock, &lengths), size_t{1} << 60, 1, &clock).status().code(),
      absl::StatusCode::kResourceExhausted);
}

TEST(CpuDevice, StopsWhereNobodyWantsTheOutputs) {
  auto device = *CpuDevice::Make(MakeCpuBackend(/*threads=*/1), 1 << 20, 1, Clock::Real());
  std::stop_source stop;
  stop.request_stop();
  const BatchOutcome outcome = device->Run(0, AttentionParams(), {}, stop.get_token());
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(outcome.sticky);
}

// One row that sees one key: o = v, in staging memory, through a real backend.
TEST(CpuDevice, WritesOutputsIntoStagingMemory) {
  auto device = *CpuDevice::Make(MakeCpuBackend(/*threads=*/1), 1 << 20, 1, Clock::Real());
  AttentionParams params;
  params.head_dim = 8;
  StagingBuffer input = *device->staging().Allocate(3 * 8 * sizeof(float));
  StagingBuffer output = *device->staging().Allocate(8 * sizeof(float));
  float values[24];
  for (int i = 0; i < 24; ++i) values[i] = static_cast<float>(i);
  std::memcpy(input.data(), values, sizeof(values));
  std::memset(output.data(), 0xFF, output.size());
  SequenceView view;
  view.q_len = view.kv_len = 1;
  view.q = input.data();
  view.k = input.data() + 8 * sizeof(float);
  view.v = input.data() + 16 * sizeof(float);
  view.o = output.data();
  view.q_strides = view.k_strides = view.v_strides = view.o_strides = Strides::Packed(1, 8);
  const BatchItem item = {{input.data(), input.size()}, {output.data(), output.size()}, {&view, 1}};
  const BatchOutcome outcome = device->Run(0, params, {&item, 1}, {});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(std::memcmp(output.data(), values + 16, output.size()), 0);
}

TEST(CpuName, ReadsTheModelName) {
  const std::string path = testing::TempDir() + "/tessera_cpuinfo";
  std::ofstream(path) << "processor\t: 0\nmodel name\t: Quick CPU @ 2.00GHz: fast\nmodel name\t: Other\n";
  EXPECT_EQ(CpuName(path), "Quick CPU @ 2.00GHz: fast");
  std::ofstream(path) << "processor\t: 0\n";
  EXPECT_EQ(CpuName(path), "CPU");
  EXPECT_EQ(CpuName(path + "/none"), "CPU");
}

}  // namespace
}  // namespace tessera
