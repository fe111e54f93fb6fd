#include "tests/gpu/attention_case.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/half.h"

namespace tessera::gpu_test {
namespace {

constexpr int64_t kGuard = 64;  // elements between sequences

TensorPlan PlanTensor(const Case& test, int64_t heads, int64_t width, bool queries) {
  TensorPlan plan;
  plan.elements = kGuard + test.misalign;
  for (const Lengths& lengths : test.sequences) {
    const int64_t tokens = queries ? lengths.q : lengths.kv;
    const int64_t pad = test.layout == Layout::kPadded ? 8 : 0;
    Strides strides = {heads * (width + pad) + pad, width + pad};
    if (test.layout == Layout::kTransposed) strides = {width, std::max<int64_t>(tokens, 1) * width + 16};
    plan.offsets.push_back(plan.elements);
    plan.strides.push_back(strides);
    plan.elements += std::max(tokens * strides.token, heads * strides.head) + heads * width + kGuard;
    plan.elements = (plan.elements + 63) / 64 * 64 + test.misalign;
  }
  return plan;
}

// Values of one element type on the host, as floats that the type can hold.
struct HostTensor {
  std::vector<float> values;

  std::vector<unsigned char> Encode(DType dtype) const {
    std::vector<unsigned char> bytes(values.size() * SizeOf(dtype));
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::kFloat32) {
        std::memcpy(&bytes[4 * i], &values[i], 4);
      } else {
        const uint16_t bits =
            dtype == DType::kFloat16 ? FromFloat<Half>(values[i]).bits : FromFloat<BFloat16>(values[i]).bits;
        std::memcpy(&bytes[2 * i], &bits, 2);
      }
    }
    return bytes;
  }
};

}  // namespace

Inputs MakeInputs(const Case& test, std::mt19937_64& random) {
  const AttentionParams& params = test.params;
  Inputs inputs;
  inputs.q = PlanTensor(test, params.q_heads, params.head_dim, true);
  inputs.k = PlanTensor(test, params.kv_heads, params.head_dim, false);
  inputs.v = inputs.k;
  inputs.o = inputs.q;
  inputs.lse = PlanTensor(test, params.q_heads, 1, true);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<double> uniform(0, 1);
  auto make = [&](const TensorPlan& plan, int64_t heads, bool queries, double magnitude, double mean,
                  double nan_fraction) {
    HostTensor tensor;
    tensor.values.assign(plan.elements, NAN);
    for (size_t s = 0; s < test.sequences.size(); ++s) {
      const int64_t tokens = queries ? test.sequences[s].q : test.sequences[s].kv;
      for (int64_t token = 0; token < tokens; ++token) {
        const bool broken = nan_fraction > 0 && uniform(random) < nan_fraction;
        for (int64_t head = 0; head < heads; ++head) {
          float* row = &tensor.values[plan.offsets[s] + token * plan.strides[s].token + head * plan.strides[s].head];
          for (int c = 0; c < params.head_dim; ++c) row[c] = static_cast<float>(normal(random) * magnitude + mean);
          if (broken) row[random() % params.head_dim] = random() % 2 ? NAN : INFINITY;
        }
      }
    }
    auto buffer = std::make_unique<DeviceBuffer>(plan.elements * SizeOf(params.dtype));
    buffer->Upload(tensor.Encode(params.dtype));
    return buffer;
  };
  inputs.q_data = make(inputs.q, params.q_heads, true, test.magnitude, test.mean, 0);
  inputs.k_data = make(inputs.k, params.kv_heads, false, test.magnitude, -test.mean, 0);
  inputs.v_data = make(inputs.v, params.kv_heads, false, 1, 0, test.nan_fraction);
  return inputs;
}

std::vector<SequenceView> Views(const Case& test, const Inputs& inputs, unsigned char* o, float* lse) {
  const int64_t size = SizeOf(test.params.dtype);
  std::vector<SequenceView> views;
  for (size_t s = 0; s < test.sequences.size(); ++s) {
    SequenceView view;
    view.q_len = test.sequences[s].q;
    view.kv_len = test.sequences[s].kv;
    view.q = inputs.q_data->as<unsigned char>() + inputs.q.offsets[s] * size;
    view.k = inputs.k_data->as<unsigned char>() + inputs.k.offsets[s] * size;
    view.v = inputs.v_data->as<unsigned char>() + inputs.v.offsets[s] * size;
    view.o = o + inputs.o.offsets[s] * size;
    view.lse = test.lse ? lse + inputs.lse.offsets[s] : nullptr;
    view.q_strides = inputs.q.strides[s];
    view.k_strides = inputs.k.strides[s];
    view.v_strides = inputs.v.strides[s];
    view.o_strides = inputs.o.strides[s];
    view.lse_strides = inputs.lse.strides[s];
    views.push_back(view);
  }
  return views;
}

Output RunBackend(AttentionBackend& backend, const Case& test, const Inputs& inputs, ForwardStats* stats) {
  const size_t o_bytes = inputs.o.elements * SizeOf(test.params.dtype);
  DeviceBuffer o(o_bytes), lse(inputs.lse.elements * sizeof(float));
  Check(cudaMemset(o.as<void>(), kPoison, o_bytes), "poison");
  Check(cudaMemset(lse.as<void>(), kPoison, inputs.lse.elements * sizeof(float)), "poison");
  const std::vector<SequenceView> views = Views(test, inputs, o.as<unsigned char>(), lse.as<float>());
  const absl::Status status = backend.Forward(test.params, views, nullptr, stats);
  if (!status.ok()) {
    std::printf("FAIL %s: %s\n", test.name.c_str(), status.ToString().c_str());
    return {};
  }
  Check(cudaDeviceSynchronize(), test.name.c_str());
  return {o.Download<unsigned char>(), lse.Download<unsigned char>()};
}

float Decode(DType dtype, const unsigned char* element) {
  if (dtype == DType::kFloat32) {
    float value;
    std::memcpy(&value, element, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, element, 2);
  return dtype == DType::kFloat16 ? ToFloat(Half{bits}) : ToFloat(BFloat16{bits});
}

std::string Describe(const Case& test) {
  const AttentionParams& p = test.params;
  std::string text = absl::StrCat(test.name, ": ", Name(p.dtype), " heads ", p.q_heads, "/", p.kv_heads, " d ",
                                  p.head_dim, " mask ", p.mask.left, ",", p.mask.right, " softcap ", p.softcap,
                                  " scale ", p.scale, " layout ", static_cast<int>(test.layout), " lengths");
  for (size_t s = 0; s < std::min<size_t>(test.sequences.size(), 6); ++s) {
    absl::StrAppend(&text, " ", test.sequences[s].q, "x", test.sequences[s].kv);
  }
  return text;
}

}  // namespace tessera::gpu_test
