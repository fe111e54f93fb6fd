#include "tests/gpu/resident_calls.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "kernels/dtype_dispatch.h"
#include "kernels/half.h"
#include "server/clock/clock.h"
#include "server/engine/extend_runner.h"

namespace tessera::testing {
namespace {

ResidentCachePtr OpenCache(const CacheProfile& profile, Device* device) {
  absl::StatusOr<std::unique_ptr<StagingPool::Region>> pages = device->TakePages(static_cast<size_t>(profile.bytes()));
  ABSL_RAW_CHECK(pages.ok(), "the device has the profile's pages");
  absl::StatusOr<std::unique_ptr<StagingPool::Region>> host_pages = nullptr;
  if (profile.host_pages > 0) host_pages = device->TakeHostPages(static_cast<size_t>(profile.host_bytes()));
  ABSL_RAW_CHECK(host_pages.ok(), "and the host's");
  return std::make_shared<ResidentCache>(profile, /*device=*/0, *std::move(pages), Clock::Real(),
                                         *std::move(host_pages));
}

// Repeats itself, for random numbers take longer than steps. The period is prime: no two rows are the same.
void FillRandom(const StagingBuffer& buffer, DType dtype, uint64_t seed) {
  constexpr size_t kPeriod = 65521;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-2, 2);
  DispatchDType(dtype, [&]<typename T>(T) {
    auto* const elements = reinterpret_cast<T*>(buffer.data());
    for (size_t i = 0; i < buffer.size() / sizeof(T); ++i) {
      elements[i] = i < kPeriod ? FromFloat<T>(uniform(random)) : elements[i - kPeriod];
    }
  });
}

void PoisonOutput(ExtendJob& call) {
  if (call.output().size() > 0) std::memset(call.output().data(), 0xFF, call.output().size());
}

}  // namespace

ResidentCalls::ResidentCalls(const CacheProfile& profile, Device* device)
    : profile_(profile), device_(device), cache_(OpenCache(profile, device)) {}

absl::StatusOr<std::shared_ptr<ExtendJob>> ResidentCalls::Make(const std::string& tenant, const AttentionParams& params,
                                                               std::vector<ExtendEntry> entries, uint64_t seed) {
  std::vector<StepEntry> wanted;
  for (const ExtendEntry& entry : entries) wanted.push_back({entry.sequence, entry.layer, entry.append_tokens});
  absl::StatusOr<CacheStep> step = cache_->sequences().Reserve(tenant, wanted);
  if (!step.ok()) return step.status();
  const ExtendShape shape =
      *ExtendShape::Make(params, std::move(entries), /*return_lse=*/true, profile_, RequestLimits());
  StagingBuffer input = *device_->staging().Allocate(static_cast<size_t>(shape.input_bytes()));
  StagingBuffer output = *device_->staging().Allocate(static_cast<size_t>(shape.output_bytes()));
  FillRandom(input, params.dtype, seed);
  auto call = std::make_shared<ExtendJob>(Job::Traits{}, cache_, shape, std::move(input), std::move(output),
                                          ByteBudget::Charge(), [](const absl::Status&, Job::State) {});
  PoisonOutput(*call);
  call->Begin(SequenceTurns::Turn(), *std::move(step), call->traits().cost);
  return call;
}

BatchOutcome ResidentCalls::Run(int slot, absl::Span<const DeviceJobPtr> calls) {
  return ExtendRunner(device_).Run(slot, calls, {});
}

void ResidentCalls::Commit(absl::Span<const DeviceJobPtr> calls) {
  const absl::Time now = Clock::Real()->Now();
  for (const DeviceJobPtr& call : calls) call->Complete({now, now, static_cast<int64_t>(calls.size())});
}

BatchOutcome ResidentCalls::Spill(int slot, int64_t pages) {
  std::optional<CacheStep> step = cache_->sequences().Spill(pages);
  if (!step.has_value()) return {};
  const std::vector<DeviceJobPtr> copies = {ExtendJob::OfCopies(cache_, *std::move(step), "spill", JobPriority::kNormal,
                                                                [](const absl::Status&, Job::State) {})};
  BatchOutcome outcome = Run(slot, copies);
  if (outcome.status.ok()) Commit(copies);
  return outcome;
}

std::vector<std::vector<std::byte>> OutputsOf(absl::Span<const DeviceJobPtr> calls) {
  std::vector<std::vector<std::byte>> outputs;
  for (const DeviceJobPtr& each : calls) {
    const StagingBuffer& output = static_cast<ExtendJob&>(*each).output();
    outputs.emplace_back(output.data(), output.data() + output.size());
  }
  return outputs;
}

void PoisonOutputs(absl::Span<const DeviceJobPtr> calls) {
  for (const DeviceJobPtr& call : calls) PoisonOutput(static_cast<ExtendJob&>(*call));
}

AttentionParams ParamsFor(const CacheProfile& profile, int32_t group) {
  AttentionParams params;
  params.dtype = profile.dtype;
  params.kv_heads = profile.kv_heads;
  params.q_heads = profile.kv_heads * group;
  params.head_dim = profile.head_dim;
  params.scale = 1 / std::sqrt(static_cast<float>(profile.head_dim));
  params.mask = Mask::Causal();
  return params;
}

}  // namespace tessera::testing
