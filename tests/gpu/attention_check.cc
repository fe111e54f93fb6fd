// Compares the CUDA backend with attention in double precision over random and chosen cases, on one GPU.
//
//   attention_check [--family=sm90a|sm80|standard] [--seed=N] [--cases=N] [--small]
//
// Inputs lie between guard elements that are NaN, outputs are poisoned beforehand, and every element that attention
// must not write is checked to be untouched. The bound on the error is twice that of standard attention in the same
// element type (three times with a softcap) plus a small absolute term. Exit status 0: all cases passed.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/attention.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/standard/standard_backend.h"
#include "kernels/half.h"
#include "tests/gpu/reference.h"

namespace tessera::gpu_test {
namespace {

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}

// Device memory with an owner.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes) : bytes_(bytes) {
    Check(cudaMalloc(&data_, std::max<size_t>(bytes, 256)), "cudaMalloc");
  }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  template <typename T>
  void Upload(const std::vector<T>& host) {
    Check(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice), "upload");
  }
  template <typename T>
  std::vector<T> Download() const {
    std::vector<T> host(bytes_ / sizeof(T));
    Check(cudaMemcpy(host.data(), data_, host.size() * sizeof(T), cudaMemcpyDeviceToHost), "download");
    return host;
  }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

enum class Layout { kPacked, kPadded, kTransposed };

struct Lengths {
  int64_t q = 0;
  int64_t kv = 0;
};

struct Case {
  std::string name;
  AttentionParams params;
  std::vector<Lengths> sequences;
  Layout layout = Layout::kPacked;
  bool lse = true;
  double magnitude = 1;     // of q and k
  double mean = 0;          // of k, against q's of the other sign
  double nan_fraction = 0;  // of V rows that hold NaN or infinity
  int misalign = 0;         // elements that every tensor starts off a 16-byte boundary
};

// One tensor of all sequences: where each starts and its strides, in elements.
struct TensorPlan {
  std::vector<int64_t> offsets;
  std::vector<Strides> strides;
  int64_t elements = 0;
};

constexpr int64_t kGuard = 64;                      // elements between sequences
constexpr int64_t kScoreBudget = int64_t{1} << 20;  // bytes, of standard attention: several sets of heads where long

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

constexpr unsigned char kPoison = 0xAB;
constexpr double kUntouched = -1.2345678901234e300;

struct Inputs {
  TensorPlan q, k, v, o, lse;
  std::unique_ptr<DeviceBuffer> q_data, k_data, v_data;
};

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

struct Output {
  std::vector<unsigned char> o;
  std::vector<unsigned char> lse;
};

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

struct Reference {
  std::vector<double> o, lse;
};

Reference RunReference(const Case& test, const Inputs& inputs, Rounding rounding) {
  const std::vector<double> untouched_o(inputs.o.elements, kUntouched), untouched_lse(inputs.lse.elements, kUntouched);
  DeviceBuffer o(untouched_o.size() * sizeof(double)), lse(untouched_lse.size() * sizeof(double));
  o.Upload(untouched_o);
  lse.Upload(untouched_lse);
  const std::vector<SequenceView> views = Views(test, inputs, nullptr, nullptr);
  for (size_t s = 0; s < views.size(); ++s) {
    Check(ReferenceForward(test.params, views[s], rounding, o.as<double>() + inputs.o.offsets[s],
                           test.lse ? lse.as<double>() + inputs.lse.offsets[s] : nullptr, nullptr),
          "reference");
  }
  Check(cudaDeviceSynchronize(), "reference");
  return {o.Download<double>(), lse.Download<double>()};
}

// Empty where the output is right, else what is wrong. stores_scores: the backend keeps scores in the element type.
std::string Compare(const Case& test, const Inputs& inputs, const Output& output, bool stores_scores,
                    double* worst_ratio) {
  if (output.o.empty()) return "refused";
  const Reference exact = RunReference(test, inputs, Rounding::kNone);
  const Reference standard = RunReference(test, inputs, Rounding::kStandard);
  const DType dtype = test.params.dtype;
  const int64_t size = SizeOf(dtype);
  double error = 0, standard_error = 0, scale = 0;
  for (int64_t i = 0; i < inputs.o.elements; ++i) {
    const unsigned char* element = &output.o[i * size];
    if (exact.o[i] == kUntouched) {
      for (int64_t b = 0; b < size; ++b) {
        if (element[b] != kPoison) return "o written outside of its rows at element " + std::to_string(i);
      }
      continue;
    }
    const double value = Decode(dtype, element);
    if (!std::isfinite(exact.o[i])) {
      if (std::isfinite(value)) return "o finite where a visible value is not, element " + std::to_string(i);
      continue;
    }
    if (!std::isfinite(value)) return "o not finite at element " + std::to_string(i);
    error = std::max(error, std::abs(value - exact.o[i]));
    standard_error = std::max(standard_error, std::abs(standard.o[i] - exact.o[i]));
    scale = std::max(scale, std::abs(exact.o[i]));
  }
  const double epsilon = dtype == DType::kFloat32 ? 1e-6 : dtype == DType::kFloat16 ? 1e-3 : 8e-3;
  const double bound = (test.params.softcap > 0 ? 3 : 2) * standard_error + epsilon * std::max(scale, 1e-3) / 8;
  if (bound > 0) *worst_ratio = std::max(*worst_ratio, error / bound);
  if (!(error <= bound)) return "o off by " + std::to_string(error) + ", bound " + std::to_string(bound);
  // LSE is fp32 whatever the element type, but of scores that were stored it can be no better than they are.
  double lse_error = 0;
  for (int64_t i = 0; stores_scores && test.lse && i < inputs.lse.elements; ++i) {
    if (std::isfinite(exact.lse[i])) lse_error = std::max(lse_error, std::abs(standard.lse[i] - exact.lse[i]));
  }
  for (int64_t i = 0; test.lse && i < inputs.lse.elements; ++i) {
    float value;
    std::memcpy(&value, &output.lse[i * 4], 4);
    if (exact.lse[i] == kUntouched) {
      if (output.lse[i * 4] != kPoison) return "lse written outside of its rows";
      continue;
    }
    if (!std::isfinite(exact.lse[i])) {
      if (std::isnan(exact.lse[i]) ? !std::isnan(value) : value != exact.lse[i]) {
        return "lse " + std::to_string(value) + " for " + std::to_string(exact.lse[i]);
      }
      continue;
    }
    const double tolerance =
        2e-5 * std::max(1.0, std::abs(exact.lse[i])) + (test.params.softcap > 0 ? 1e-4 : 0) + 2 * lse_error;
    if (!(std::abs(value - exact.lse[i]) <= tolerance)) {
      return "lse " + std::to_string(value) + " for " + std::to_string(exact.lse[i]);
    }
  }
  return "";
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

float DefaultScale(int head_dim) { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

Case RandomCase(std::mt19937_64& random, const std::vector<DType>& dtypes, int64_t max_len) {
  auto pick = [&](auto... options) {
    const std::vector<int64_t> list = {static_cast<int64_t>(options)...};
    return list[random() % list.size()];
  };
  auto length = [&]() -> int64_t {
    const int64_t base = pick(0, 1, 2, 16, 64, 80, 112, 128, 176, 192, 256, 384, 512, 1024, -1, -1);
    const int64_t value = base < 0 ? static_cast<int64_t>(random() % 700) : base + pick(-1, 0, 0, 1);
    return std::clamp<int64_t>(value, 0, max_len);
  };
  Case test;
  test.params.dtype = dtypes[random() % dtypes.size()];
  test.params.kv_heads = static_cast<int32_t>(pick(1, 1, 2, 3));
  test.params.q_heads = test.params.kv_heads * static_cast<int32_t>(pick(1, 1, 1, 2, 4, 5, 7, 8, 16));
  if (random() % 40 == 0) test.params.q_heads = test.params.kv_heads * 64;
  test.params.head_dim = static_cast<int32_t>(random() % 2 ? pick(64, 96, 128, 192, 256) : 8 * (1 + random() % 32));
  test.params.scale = DefaultScale(test.params.head_dim);
  switch (random() % 5) {
    case 0:
    case 1:
      test.params.mask = Mask::Causal();
      break;
    case 2:
      test.params.mask = Mask::Window(pick(-1, 0, 1, 17, 64, 130, 500), pick(-1, 0, 0, 3, 100, int64_t{1} << 40));
      break;
    default:
      break;
  }
  if (random() % 6 == 0) test.params.softcap = static_cast<float>(pick(5, 30, 50));
  if (random() % 25 == 0) test.params.scale = -test.params.scale;
  if (random() % 50 == 0) test.params.scale = 0;
  if (random() % 4 == 0) test.magnitude = 3;
  test.layout = static_cast<Layout>(random() % 3);
  test.lse = random() % 4 != 0;
  const int64_t count = pick(1, 1, 2, 3, 5);
  for (int64_t s = 0; s < count; ++s) {
    const int64_t q = length();
    test.sequences.push_back({q, random() % 2 ? q : length()});
  }
  test.name = "random";
  return test;
}

std::vector<Case> ChosenCases(DType dtype) {
  std::vector<Case> cases;
  auto add = [&](const char* name, int heads, int kv_heads, int d, Mask mask, std::vector<Lengths> lengths) -> Case& {
    Case test;
    test.name = name;
    test.params = {dtype, heads, kv_heads, d, DefaultScale(d), mask, 0};
    test.sequences = std::move(lengths);
    cases.push_back(test);
    return cases.back();
  };
  for (int d : {64, 128, 256}) {
    add("more queries than keys, causal", 2, 2, d, Mask::Causal(), {{300, 100}, {129, 1}, {77, 0}});
    Case& low = add("all logits below -5e4", 2, 1, d, Mask::Causal(), {{200, 200}, {10, 500}});
    low.mean = std::sqrt(6.5e4 / d);
    low.magnitude = 0.01;
    low.params.scale = 1;
    add("NaN in hidden values, causal", 2, 1, d, Mask::Causal(), {{300, 300}, {64, 400}}).nan_fraction = 0.01;
    add("NaN in hidden values, window", 2, 2, d, Mask::Window(40, 10), {{500, 500}}).nan_fraction = 0.005;
    add("NaN in seen values", 1, 1, d, Mask::Full(), {{100, 300}}).nan_fraction = 0.01;
    add("huge window", 2, 2, d, Mask::Window(int64_t{1} << 62, int64_t{1} << 62), {{200, 300}});
    add("empty sequences between others", 2, 2, d, Mask::Full(), {{0, 0}, {100, 100}, {0, 50}, {50, 0}, {1, 1}});
    add("one query head per row tile", 64, 1, d, Mask::Causal(), {{3, 700}});
    add("q = 76, 34, 146 and one key", 2, 2, d, Mask::Causal(), {{76, 1}, {34, 1}, {146, 1}});
    add("window that only some rows of a tile see", 1, 1, d, Mask::Window(3, -1), {{700, 300}});
  }
  for (int d : {8, 64, 104, 256}) {
    Case& odd = add("tensors off 16-byte boundaries", 4, 2, d, Mask::Causal(), {{100, 130}, {33, 33}});
    odd.misalign = 3;
    odd.layout = Layout::kPadded;
  }
  add("long", 1, 1, 128, Mask::Causal(), {{64, 100000}});
  return cases;
}

// Same bits over repeats, and alone or among others.
std::string CheckRepeatable(AttentionBackend& backend, DType dtype, int d, Mask mask, std::mt19937_64& random) {
  Case batch;
  batch.name = "repeat";
  batch.params = {dtype, 4, 2, d, DefaultScale(d), mask, 0};
  batch.sequences = {{333, 333}, {17, 900}, {1, 513}, {640, 128}, {200, 200}};
  const Inputs inputs = MakeInputs(batch, random);
  const Output first = RunBackend(backend, batch, inputs, nullptr);
  for (int repeat = 0; repeat < 100; ++repeat) {
    const Output again = RunBackend(backend, batch, inputs, nullptr);
    if (again.o != first.o || again.lse != first.lse) return "bits change between repeats";
  }
  const size_t o_bytes = inputs.o.elements * SizeOf(dtype);
  DeviceBuffer o(o_bytes), lse(inputs.lse.elements * sizeof(float));
  Check(cudaMemset(o.as<void>(), kPoison, o_bytes), "poison");
  Check(cudaMemset(lse.as<void>(), kPoison, inputs.lse.elements * sizeof(float)), "poison");
  for (const SequenceView& view : Views(batch, inputs, o.as<unsigned char>(), lse.as<float>())) {
    const absl::Status status = backend.Forward(batch.params, {&view, 1}, nullptr, nullptr);
    if (!status.ok()) return status.ToString();
  }
  Check(cudaDeviceSynchronize(), "alone");
  if (o.Download<unsigned char>() != first.o || lse.Download<unsigned char>() != first.lse) {
    return "bits change with the batchmates";
  }
  return "";
}

// K and V rows 2^28 elements apart: offsets pass 2^32 bytes.
Case FarApart(DType dtype) {
  Case test;
  test.name = "rows 2^28 elements apart";
  test.params = {dtype, 1, 1, 64, DefaultScale(64), Mask::Causal(), 0};
  test.sequences = {{20, 20}};
  return test;
}

std::string CheckFarApart(AttentionBackend& backend, DType dtype, std::mt19937_64& random) {
  const Case test = FarApart(dtype);
  const Inputs inputs = MakeInputs(test, random);
  constexpr int64_t kStride = int64_t{1} << 28;
  const int64_t size = SizeOf(dtype);
  DeviceBuffer k(20 * kStride * size), v(20 * kStride * size), o(inputs.o.elements * size),
      lse(inputs.lse.elements * 4);
  const Output near = RunBackend(backend, test, inputs, nullptr);
  Check(cudaMemset(o.as<void>(), kPoison, inputs.o.elements * size), "poison");
  SequenceView view = Views(test, inputs, o.as<unsigned char>(), lse.as<float>())[0];
  const int64_t width = 64 * size;
  Check(cudaMemcpy2D(k.as<void>(), kStride * size, view.k, view.k_strides.token * size, width, 20, cudaMemcpyDefault),
        "spread");
  Check(cudaMemcpy2D(v.as<void>(), kStride * size, view.v, view.v_strides.token * size, width, 20, cudaMemcpyDefault),
        "spread");
  view.k = k.as<void>();
  view.v = v.as<void>();
  view.k_strides.token = view.v_strides.token = kStride;
  const absl::Status status = backend.Forward(test.params, {&view, 1}, nullptr, nullptr);
  if (!status.ok()) return status.ToString();
  Check(cudaDeviceSynchronize(), "far apart");
  return o.Download<unsigned char>() == near.o ? "" : "other bits than with rows side by side";
}

Case ManySequences(DType dtype) {
  Case test;
  test.name = "70000 sequences of one token";
  test.params = {dtype, 1, 1, 8, 1, Mask::Causal(), 0};
  test.sequences.assign(70000, {1, 1});
  return test;
}

}  // namespace

int Main(int argc, char** argv) {
  std::string family = "sm90a";
  uint64_t seed = std::random_device{}();
  int random_cases = 400;
  bool small = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--family=", 0) == 0)
      family = argument.substr(9);
    else if (argument.rfind("--seed=", 0) == 0)
      seed = std::stoull(argument.substr(7));
    else if (argument.rfind("--cases=", 0) == 0)
      random_cases = std::stoi(argument.substr(8));
    else if (argument == "--small")
      small = true;
    else
      return std::fprintf(stderr, "unknown argument %s\n", argv[i]), 64;
  }
  absl::StatusOr<std::unique_ptr<AttentionBackend>> created =
      family == "standard"
          ? cuda::CreateStandardBackend(0, kScoreBudget)
          : cuda::CreateCudaBackend(0, family == "sm80" ? cuda::KernelFamily::kSm80 : cuda::KernelFamily::kSm90a);
  if (!created.ok()) return std::fprintf(stderr, "%s\n", created.status().ToString().c_str()), 2;
  AttentionBackend& backend = **created;
  const bool stores_scores = family == "standard";
  std::vector<DType> dtypes = {DType::kFloat16, DType::kBFloat16};
  if (family != "sm90a") dtypes.push_back(DType::kFloat32);
  std::printf("family %s, seed %llu\n", family.c_str(), static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);

  std::vector<Case> cases;
  if (!small) {
    for (DType dtype : dtypes) {
      for (const Case& test : ChosenCases(dtype)) cases.push_back(test);
    }
  }
  for (int i = 0; i < random_cases; ++i) cases.push_back(RandomCase(random, dtypes, small ? 300 : 1500));

  int failures = 0;
  double worst = 0;
  auto report = [&](const std::string& name, const std::string& fault) {
    if (fault.empty()) return;
    ++failures;
    if (failures <= 40) std::printf("FAIL %s: %s\n", name.c_str(), fault.c_str());
  };
  for (const Case& test : cases) {
    const Inputs inputs = MakeInputs(test, random);
    ForwardStats stats;
    const Output output = RunBackend(backend, test, inputs, &stats);
    report(Describe(test), Compare(test, inputs, output, stores_scores, &worst));
  }
  int others = 0;
  if (!small) {
    for (DType dtype : dtypes) {
      for (int d : {64, 96, 128, 192, 256}) {
        for (Mask mask : {Mask::Full(), Mask::Causal(), Mask::Window(100, 5)}) {
          report("repeats " + std::string(Name(dtype)) + " d " + std::to_string(d),
                 CheckRepeatable(backend, dtype, d, mask, random));
          ++others;
        }
      }
      report("rows 2^28 elements apart", CheckFarApart(backend, dtype, random));
      const Case many = ManySequences(dtype);
      const Inputs inputs = MakeInputs(many, random);
      report(many.name, Compare(many, inputs, RunBackend(backend, many, inputs, nullptr), stores_scores, &worst));
      others += 2;
    }
  }
  std::printf("%s: %zu cases and %d properties, %d failed, largest error / bound %.3f\n",
              failures ? "FAILED" : "PASSED", cases.size(), others, failures, worst);
  return failures ? 1 : 0;
}

}  // namespace tessera::gpu_test

int main(int argc, char** argv) { return tessera::gpu_test::Main(argc, argv); }
