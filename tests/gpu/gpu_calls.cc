#include "tests/gpu/gpu_calls.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

namespace tessera::testing {

AttentionParams GpuParams() {
  AttentionParams params;
  params.dtype = DType::kBFloat16;
  params.q_heads = params.kv_heads = 16;
  params.head_dim = 128;
  params.scale = 1 / std::sqrt(128.0f);
  params.mask = Mask::Causal();
  return params;
}

std::shared_ptr<AttendJob> MakeGpuCall(StagingPool& staging, uint32_t tokens, std::mt19937_64& rng) {
  RequestLimits limits;
  const AttendShape shape = *AttendShape::Make(GpuParams(), {tokens}, {}, /*return_lse=*/false, limits);
  StagingBuffer input = *staging.Allocate(static_cast<size_t>(shape.input_bytes()));
  StagingBuffer output = *staging.Allocate(static_cast<size_t>(shape.output_bytes()));
  std::uniform_real_distribution<float> uniform(-2, 2);
  auto* const elements = reinterpret_cast<uint16_t*>(input.data());
  for (size_t i = 0; i < input.size() / 2; ++i) {
    elements[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(uniform(rng)) >> 16);
  }
  auto call = std::make_shared<AttendJob>(Job::Traits{}, shape, std::move(input), std::move(output),
                                          ByteBudget::Charge(), [](const absl::Status&, Job::State) {});
  Poison({call});
  return call;
}

std::vector<BatchItem> ItemsOf(const std::vector<std::shared_ptr<AttendJob>>& calls) {
  std::vector<BatchItem> items;
  items.reserve(calls.size());
  for (const auto& call : calls) {
    items.push_back({.input = {call->input().data(), call->input().size()},
                     .output = {call->output().data(), call->output().size()},
                     .sequences = call->sequences()});
  }
  return items;
}

void Poison(const std::vector<std::shared_ptr<AttendJob>>& calls) {
  for (const auto& call : calls) std::memset(call->output().data(), 0xFF, call->output().size());
}

}  // namespace tessera::testing
