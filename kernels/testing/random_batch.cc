#include "kernels/testing/random_batch.h"

#include <algorithm>
#include <cstring>

#include "kernels/dtype_dispatch.h"

namespace tessera {
namespace {

constexpr std::byte kPoison{0xff};  // all ones: NaN as fp32, fp16 and bf16
constexpr int64_t kMarginRows = 3;
constexpr int64_t kPadding = 8;  // elements after each head, and again after each token

Strides StridesOf(TensorLayout layout, int64_t tokens, int64_t heads, int64_t width) {
  switch (layout) {
    case TensorLayout::kPacked:
      return Strides::Packed(heads, width);
    case TensorLayout::kPadded:
      return {heads * (width + kPadding) + kPadding, width + kPadding};
    case TensorLayout::kHeadsOuter:
      return {width, std::max<int64_t>(tokens, 1) * width};
  }
  return {};
}

}  // namespace

TestTensor::TestTensor(DType dtype, TensorLayout layout, int64_t tokens, int64_t heads, int64_t width)
    : dtype_(dtype),
      tokens_(tokens),
      heads_(heads),
      width_(width),
      strides_(StridesOf(layout, tokens, heads, width)),
      margin_(kMarginRows * heads * width) {
  const int64_t extent = tokens == 0 ? 0 : (tokens - 1) * strides_.token + (heads - 1) * strides_.head + width;
  bytes_.resize((extent + 2 * margin_) * SizeOf(dtype));
  Poison();
}

void* TestTensor::data() { return bytes_.data() + margin_ * SizeOf(dtype_); }

int64_t TestTensor::Offset(int64_t token, int64_t head, int64_t c) const {
  return (margin_ + token * strides_.token + head * strides_.head + c) * SizeOf(dtype_);
}

float TestTensor::Get(int64_t token, int64_t head, int64_t c) const {
  return DispatchDType(dtype_, [&](auto element) {
    std::memcpy(&element, bytes_.data() + Offset(token, head, c), sizeof(element));
    return ToFloat(element);
  });
}

void TestTensor::Set(int64_t token, int64_t head, int64_t c, float value) {
  DispatchDType(dtype_, [&](auto element) {
    element = FromFloat<decltype(element)>(value);
    std::memcpy(bytes_.data() + Offset(token, head, c), &element, sizeof(element));
  });
}

void TestTensor::SetRow(int64_t token, int64_t head, float value) {
  for (int64_t c = 0; c < width_; ++c) Set(token, head, c, value);
}

void TestTensor::FillNormal(std::mt19937_64& random, float deviation) {
  std::normal_distribution<float> normal(0.0f, deviation);
  for (int64_t token = 0; token < tokens_; ++token) {
    for (int64_t head = 0; head < heads_; ++head) {
      for (int64_t c = 0; c < width_; ++c) Set(token, head, c, normal(random));
    }
  }
}

void TestTensor::Poison() { std::fill(bytes_.begin(), bytes_.end(), kPoison); }

bool TestTensor::PaddingIsPoison() const {
  std::vector<bool> used(bytes_.size());
  const int64_t row_bytes = width_ * SizeOf(dtype_);
  for (int64_t token = 0; token < tokens_; ++token) {
    for (int64_t head = 0; head < heads_; ++head) {
      std::fill_n(used.begin() + Offset(token, head, 0), row_bytes, true);
    }
  }
  for (size_t i = 0; i < bytes_.size(); ++i) {
    if (!used[i] && bytes_[i] != kPoison) return false;
  }
  return true;
}

bool TestTensor::AnyElementIsPoison() const {
  const std::vector<std::byte> bytes = Bytes();
  const int64_t size = SizeOf(dtype_);
  for (size_t i = 0; i < bytes.size(); i += size) {
    if (std::all_of(bytes.begin() + i, bytes.begin() + i + size, [](std::byte b) { return b == kPoison; })) return true;
  }
  return false;
}

std::vector<std::byte> TestTensor::Bytes() const {
  std::vector<std::byte> packed;
  const int64_t row_bytes = width_ * SizeOf(dtype_);
  packed.reserve(tokens_ * heads_ * row_bytes);
  for (int64_t token = 0; token < tokens_; ++token) {
    for (int64_t head = 0; head < heads_; ++head) {
      const auto row = bytes_.begin() + Offset(token, head, 0);
      packed.insert(packed.end(), row, row + row_bytes);
    }
  }
  return packed;
}

RandomBatch::RandomBatch(const AttentionParams& params, absl::Span<const SequenceLengths> lengths, uint64_t seed,
                         TensorLayout layout, float deviation)
    : params_(params) {
  std::mt19937_64 random(seed);
  for (const SequenceLengths& n : lengths) {
    sequences_.push_back({n, TestTensor(params.dtype, layout, n.q_len, params.q_heads, params.head_dim),
                          TestTensor(params.dtype, layout, n.kv_len, params.kv_heads, params.head_dim),
                          TestTensor(params.dtype, layout, n.kv_len, params.kv_heads, params.head_dim),
                          TestTensor(params.dtype, layout, n.q_len, params.q_heads, params.head_dim),
                          TestTensor(DType::kFloat32, layout, n.q_len, params.q_heads, 1)});
    TestSequence& sequence = sequences_.back();
    sequence.q.FillNormal(random, deviation);
    sequence.k.FillNormal(random, deviation);
    sequence.v.FillNormal(random, deviation);
  }
}

SequenceView RandomBatch::View(size_t i, bool with_lse) {
  TestSequence& sequence = sequences_[i];
  return {.q_len = sequence.lengths.q_len,
          .kv_len = sequence.lengths.kv_len,
          .q = sequence.q.data(),
          .k = sequence.k.data(),
          .v = sequence.v.data(),
          .o = sequence.o.data(),
          .lse = with_lse ? static_cast<float*>(sequence.lse.data()) : nullptr,
          .q_strides = sequence.q.strides(),
          .k_strides = sequence.k.strides(),
          .v_strides = sequence.v.strides(),
          .o_strides = sequence.o.strides(),
          .lse_strides = sequence.lse.strides()};
}

std::vector<SequenceView> RandomBatch::Views(bool with_lse) {
  std::vector<SequenceView> views;
  for (size_t i = 0; i < sequences_.size(); ++i) views.push_back(View(i, with_lse));
  return views;
}

void RandomBatch::PoisonOutputs() {
  for (TestSequence& sequence : sequences_) {
    sequence.o.Poison();
    sequence.lse.Poison();
  }
}

}  // namespace tessera
