#include "server/device/cuda/testing/paged_steps.h"

#include <cstring>
#include <random>
#include <utility>

namespace tessera {
namespace {

constexpr int64_t kQRow = 4 * 8;
constexpr int64_t kQHeads = 4;

int64_t InputFloats(const TestCall& call) {
  int64_t floats = 0;
  for (const TestEntry& entry : call.entries) floats += entry.q_len * kQRow + 2 * entry.append_len * TestPages::kRow;
  return floats;
}

int64_t OutputFloats(const TestCall& call) {
  int64_t floats = 0;
  for (const TestEntry& entry : call.entries) floats += entry.q_len * (kQRow + kQHeads);
  return floats;
}

}  // namespace

PagedParams TestPages::Params() {
  PagedParams params;
  params.attention.q_heads = kQHeads;
  params.attention.kv_heads = 2;
  params.attention.head_dim = 8;
  params.attention.mask = Mask::Causal();
  params.page_tokens = kTokens;
  params.page_stride = 2 * kPlane;
  params.strides = Strides::Packed(2, 8);
  return params;
}

PagedStep::PagedStep(TestCall call, std::byte* pages, StagingPool& staging, std::byte* host_pages)
    : call_(std::move(call)),
      input_(*staging.Allocate(static_cast<size_t>(InputFloats(call_)) * sizeof(float))),
      output_(*staging.Allocate(static_cast<size_t>(OutputFloats(call_)) * sizeof(float))) {
  std::mt19937 random(call_.seed);
  std::uniform_real_distribution<float> uniform(-2, 2);
  auto* in = reinterpret_cast<float*>(input_.data());
  auto* out = reinterpret_cast<float*>(output_.data());
  for (int64_t i = 0; i < InputFloats(call_); ++i) in[i] = uniform(random);
  if (output_.size() > 0) std::memset(output_.data(), 0xFF, output_.size());
  const auto page = [](std::byte* of, int32_t number) {
    return of + static_cast<size_t>(number) * TestPages::kPageBytes;
  };
  const auto copies = [page](const std::vector<TestPageCopy>& wanted, std::byte* from, std::byte* to) {
    std::vector<MemoryCopy> made;
    for (const TestPageCopy& copy : wanted) {
      made.push_back({page(from, copy.from), page(to, copy.to), TestPages::kPageBytes});
    }
    return made;
  };
  for (const int32_t number : call_.fills) fills_.push_back({page(pages, number), TestPages::kPageBytes});
  for (const int32_t number : call_.host_fills) fills_.push_back({page(host_pages, number), TestPages::kPageBytes});
  copies_ = {.on_device = copies(call_.copies, pages, pages),
             .to_host = copies(call_.to_host, pages, host_pages),
             .from_host = copies(call_.from_host, host_pages, pages)};
  for (const TestEntry& entry : call_.entries) {
    PagedSequence view;
    view.q_len = entry.q_len;
    view.kv_len = entry.kv_len;
    view.append_len = entry.append_len;
    view.layer = {.k_pages = pages, .v_pages = pages + TestPages::kPlane * sizeof(float)};
    view.pages = entry.pages;
    view.q = std::exchange(in, in + entry.q_len * kQRow);
    view.k = std::exchange(in, in + entry.append_len * TestPages::kRow);
    view.v = std::exchange(in, in + entry.append_len * TestPages::kRow);
    view.o = std::exchange(out, out + entry.q_len * kQRow);
    view.lse = std::exchange(out, out + entry.q_len * kQHeads);
    view.q_strides = view.o_strides = Strides::Packed(kQHeads, 8);
    view.k_strides = view.v_strides = Strides::Packed(2, 8);
    view.lse_strides = Strides::Packed(kQHeads, 1);
    views_.push_back(view);
  }
}

ExtendItem PagedStep::Item() const {
  return {.fills = fills_,
          .copies = copies_.on_device,
          .to_host = copies_.to_host,
          .from_host = copies_.from_host,
          .input = {input_.data(), input_.size()},
          .output = {output_.data(), output_.size()},
          .sequences = views_};
}

std::vector<float> PagedStep::Output() const {
  const auto* const floats = reinterpret_cast<const float*>(output_.data());
  return {floats, floats + output_.size() / sizeof(float)};
}

}  // namespace tessera
