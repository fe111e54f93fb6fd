// Compares the GPU's attention over pages with the reference in double, over random and chosen cases, on one GPU.
//
//   paged_check [--seed=N] [--cases=N] [--small]
//
// What is no row of a sequence is NaN, outputs are poisoned beforehand; afterwards the pages must hold all rows, the
// new ones bit for bit, and nothing else may have changed. The bound on the error is twice that of standard attention
// in the same element type over the same rows, plus a small absolute term. Exit status 0: all cases passed.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/paged/paged_backend.h"
#include "kernels/cuda/standard/standard_backend.h"
#include "kernels/reference/paged_reference.h"
#include "kernels/testing/accuracy.h"
#include "tests/gpu/device_paged_batch.h"
#include "tests/gpu/paged_properties.h"

namespace tessera::gpu_test {
namespace {

constexpr int64_t kScoreBudget = int64_t{1} << 28;  // bytes, of standard attention

struct PagedCase {
  std::string name;
  AttentionParams attention;
  PageShape shape;
  std::vector<PagedLengths> lengths;
  float deviation = 1.0f;
  uint64_t seed = 0;
};

CacheDType CacheTypeOf(DType dtype, bool fp8) { return fp8 ? CacheDType::kFloat8 : CacheDTypeFor(dtype); }

template <typename T>
const T& Pick(std::mt19937_64& random, const std::vector<T>& from) {
  return from[random() % from.size()];
}

PagedCase RandomPagedCase(std::mt19937_64& random, int index, int64_t longest) {
  PagedCase test;
  test.name = "random " + std::to_string(index);
  test.seed = random();
  AttentionParams& attention = test.attention;
  attention.dtype =
      Pick<DType>(random, {DType::kFloat16, DType::kBFloat16, DType::kFloat16, DType::kBFloat16, DType::kFloat32});
  attention.kv_heads = static_cast<int32_t>(1 + random() % 3);
  const int32_t group = Pick<int32_t>(random, {1, 2, 3, 4, 4, 5, 7, 8, 16, 20});
  if (group >= 16) attention.kv_heads = 1;
  attention.q_heads = attention.kv_heads * group;
  attention.head_dim = random() % 2 == 0
                           ? Pick<int32_t>(random, {64, 128, 128, 256})
                           : kHeadDimStep * static_cast<int32_t>(1 + random() % (kMaxHeadDim / kHeadDimStep));
  attention.scale = (random() % 8 == 0 ? -1.0f : 1.0f) / std::sqrt(static_cast<float>(attention.head_dim));
  attention.mask = Mask::Causal();
  if (random() % 4 == 0) attention.mask = Mask::Full();
  if (random() % 4 == 0) {
    attention.mask = Mask::Window(static_cast<int64_t>(random() % 300) - 1, static_cast<int64_t>(random() % 9) - 1);
  }
  if (random() % 4 == 0) attention.softcap = 0.5f + static_cast<float>(random() % 30);
  const int64_t page = Pick<int64_t>(random, {1, 2, 8, 16, 16, 32, 64, 64, 128, 512});
  test.shape = {CacheTypeOf(attention.dtype, random() % 3 == 0), page,
                Pick<PageLayout>(random, {PageLayout::kTokensOuter, PageLayout::kHeadsOuter, PageLayout::kPadded})};
  const std::vector<int64_t> lengths = {0,
                                        1,
                                        15,
                                        16,
                                        17,
                                        63,
                                        65,
                                        page - 1,
                                        page,
                                        page + 1,
                                        3 * page,
                                        400,
                                        777,
                                        kMinSplitKeys - 1,
                                        kMinSplitKeys,
                                        kMinSplitKeys + 1,
                                        static_cast<int64_t>(random() % longest)};
  for (uint64_t i = 0; i < 1 + random() % 4; ++i) {
    PagedLengths n{.q_len = Pick<int64_t>(random, {0, 1, 1, 1, 1, 2, 3, 5, 9, 17, 49, 90}),
                   .kv_len = Pick(random, lengths)};
    if (n.q_len > 17) n.kv_len = std::min<int64_t>(n.kv_len, 500);  // the reference takes its time
    if (random() % 3 != 0) n.append_len = std::min(n.q_len, n.kv_len);
    if (random() % 16 == 0) n.append_len = static_cast<int64_t>(random() % (n.kv_len + 1));
    test.lengths.push_back(n);
  }
  return test;
}

// Chunks of a prefill whose ends lie around those of pages and tiles: over pages that the forward kernels read and over
// pages that are gathered for them.
std::vector<PagedCase> ChunkCases() {
  std::vector<PagedLengths> lengths = {{60, 60, 60}, {60, 7, 7}, {50, 700, 50}};
  for (const int64_t edge : {8, 16, 64, 80, 112, 128, 176, 256}) {
    for (const int64_t length : {edge - 1, edge, edge + 1})
      lengths.push_back({26, length, std::min<int64_t>(length, 26)});
  }
  std::vector<PagedCase> cases;
  for (const int32_t d : {40, 64, 96, 128, 192, 256}) {
    for (const int64_t page : {1, 2, 8, 16, 32, 64, 256}) {
      for (const Mask mask : {Mask::Causal(), Mask::Full(), Mask::Window(90, 3)}) {
        std::vector<PagedLengths> of_case = lengths;
        if (d == 128 && mask == Mask::Full()) of_case.push_back({50, 4200, 0});  // by the kernel with wide tiles
        const bool capped = cases.size() % 5 == 0;
        const bool heads_outer = cases.size() % 2 == 0;
        const DType dtype = cases.size() % 3 == 0 ? DType::kFloat16 : DType::kBFloat16;
        cases.push_back({"chunks",
                         {.dtype = dtype,
                          .q_heads = 4,
                          .kv_heads = 2,
                          .head_dim = d,
                          .scale = 1 / std::sqrt(static_cast<float>(d)),
                          .mask = mask,
                          .softcap = capped ? 20.0f : 0.0f},
                         {CacheDTypeFor(dtype), page, heads_outer ? PageLayout::kHeadsOuter : PageLayout::kTokensOuter},
                         of_case,
                         1.0f,
                         cases.size()});
      }
    }
  }
  return cases;
}

std::vector<PagedCase> ChosenPagedCases() {
  std::vector<PagedCase> cases = ChunkCases();
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32}) {
    for (const bool fp8 : {false, true}) {
      const CacheDType cached = CacheTypeOf(dtype, fp8);
      for (int32_t d = kMinHeadDim; d <= kMaxHeadDim; d += kHeadDimStep) {
        cases.push_back({"every head size",
                         {.dtype = dtype,
                          .q_heads = 6,
                          .kv_heads = 2,
                          .head_dim = d,
                          .scale = 1 / std::sqrt(static_cast<float>(d)),
                          .mask = Mask::Causal()},
                         {cached, 16},
                         {{1, 70, 1}, {2, 33, 2}, {11, 600, 11}}});
      }
      for (const int32_t d : {64, 128, 256}) {
        const AttentionParams attention = {.dtype = dtype,
                                           .q_heads = 8,
                                           .kv_heads = 2,
                                           .head_dim = d,
                                           .scale = 1 / std::sqrt(static_cast<float>(d)),
                                           .mask = Mask::Causal()};
        AttentionParams one_head = attention;
        one_head.q_heads = 4;
        one_head.kv_heads = 1;
        cases.push_back({"long contexts", one_head, {cached, 64}, {{1, 33000, 1}, {4, 9000, 4}}});
        cases.push_back({"a chunk of a prefill", attention, {cached, 64, PageLayout::kHeadsOuter}, {{150, 900, 150}}});
        AttentionParams large = attention;
        large.scale = 1.0f;
        cases.push_back({"large logits", large, {cached, 16}, {{1, 1500, 1}, {70, 300, 0}}, 8.0f});
        std::vector<PagedLengths> edges = {{1, 0, 0}, {1, 1, 1}, {1, 1, 0}, {0, 5, 5}};
        for (const int64_t edge : {int64_t{16}, int64_t{32}, int64_t{64}, kMinSplitKeys, 2 * kMinSplitKeys}) {
          for (const int64_t length : {edge - 1, edge, edge + 1}) edges.push_back({1, length, 1});
        }
        cases.push_back({"edges", attention, {cached, 32}, edges});
        for (const int64_t rows : {1, 3, 12, 13, 90}) {
          cases.push_back({"rows of a sequence without keys", attention, {cached, 64}, {{rows, 0, 0}}});
        }
        cases.push_back({"many rows, some without keys",
                         attention,
                         {cached, 64},
                         {{90, 0, 0}, {90, 7, 7}, {60, 20, 0}, {1, 0, 0}}});
      }
    }
  }
  return cases;
}

std::string Describe(const PagedCase& test) {
  const AttentionParams& a = test.attention;
  std::string text = absl::StrCat(test.name, " (seed ", test.seed, "): ", Name(a.dtype), " in ",
                                  Name(test.shape.cache_dtype), " pages of ", test.shape.page_tokens, ", layout ",
                                  static_cast<int>(test.shape.layout), ", heads ", a.q_heads, "/", a.kv_heads, ", d ",
                                  a.head_dim, ", mask ", a.mask.left, ",", a.mask.right, ", softcap ", a.softcap);
  for (const PagedLengths& n : test.lengths) absl::StrAppend(&text, " ", n.q_len, "x", n.kv_len, "+", n.append_len);
  return text;
}

// A case with its answers, which take the processor some time.
struct PreparedCase {
  std::unique_ptr<PagedBatch> batch;
  std::vector<ReferenceOutput> expected;
};

PreparedCase Prepare(const PagedCase& test) {
  PreparedCase prepared;
  prepared.batch = std::make_unique<PagedBatch>(test.attention, test.shape, test.lengths, test.seed, test.deviation);
  for (size_t i = 0; i < prepared.batch->size(); ++i) {
    prepared.expected.push_back(AttendInDouble(test.attention, prepared.batch->contiguous().View(i)));
  }
  return prepared;
}

// Empty where the backend's answer is right, else what is wrong.
std::string Compare(PagedAttentionBackend& paged, AttentionBackend& standard, PreparedCase& test, double* worst) {
  PagedBatch& batch = *test.batch;
  const AttentionParams& attention = batch.params().attention;
  DevicePagedBatch device(batch);
  absl::Status status = standard.Forward(attention, device.contiguous_views(), nullptr, nullptr);
  if (!status.ok()) return "standard attention: " + status.ToString();
  device.Read();
  std::vector<Deviation> bounds;
  for (size_t i = 0; i < batch.size(); ++i) {
    const Deviation error = DeviationFrom(test.expected[i], attention, batch.contiguous()[i]);
    if (!std::isfinite(error.o) || !std::isfinite(error.lse)) return "standard attention is not finite";
    bounds.push_back({2 * error.o + (attention.dtype == DType::kFloat32 ? 1e-6 : 1e-5), 2 * error.lse + 1e-6});
  }
  device.Reset();
  status = paged.Extend(batch.params(), device.views(), nullptr, nullptr);
  if (!status.ok()) return status.ToString();
  device.Read();
  if (!batch.PagesAreAsExpected()) return "the pages are not what they should be";
  for (size_t i = 0; i < batch.size(); ++i) {
    const TestSequence& actual = batch.contiguous()[i];
    const std::string which = "sequence " + std::to_string(i) + ": ";
    if (!actual.o.PaddingIsPoison() || !actual.lse.PaddingIsPoison()) return which + "wrote outside of its outputs";
    if (actual.o.AnyElementIsPoison() || actual.lse.AnyElementIsPoison()) return which + "left a row unwritten";
    const Deviation error = DeviationFrom(test.expected[i], attention, actual);
    *worst = std::max({*worst, error.o / bounds[i].o, error.lse / bounds[i].lse});
    if (!(error.o <= bounds[i].o)) {
      return which + "o is off by " + std::to_string(error.o) + ", bound " + std::to_string(bounds[i].o);
    }
    if (!(error.lse <= bounds[i].lse)) {
      return which + "lse is off by " + std::to_string(error.lse) + ", bound " + std::to_string(bounds[i].lse);
    }
  }
  return "";
}

std::vector<PreparedCase> PrepareAll(const std::vector<PagedCase>& cases) {
  std::vector<PreparedCase> prepared(cases.size());
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      for (size_t j = next++; j < cases.size(); j = next++) prepared[j] = Prepare(cases[j]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return prepared;
}

}  // namespace

int Main(int argc, char** argv) {
  uint64_t seed = std::random_device{}();
  int random_cases = 400;
  bool small = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--seed=", 0) == 0)
      seed = std::stoull(argument.substr(7));
    else if (argument.rfind("--cases=", 0) == 0)
      random_cases = std::stoi(argument.substr(8));
    else if (argument == "--small")
      small = true;
    else
      return std::fprintf(stderr, "unknown argument %s\n", argv[i]), 64;
  }
  auto paged = cuda::CreatePagedBackend(0);
  auto standard = cuda::CreateStandardBackend(0, kScoreBudget);
  if (!paged.ok() || !standard.ok()) {
    return std::fprintf(stderr, "%s %s\n", paged.status().ToString().c_str(), standard.status().ToString().c_str()), 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // whoever stops it sees how far it came
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  std::vector<PagedCase> cases;
  if (!small) cases = ChosenPagedCases();
  for (int i = 0; i < random_cases; ++i) cases.push_back(RandomPagedCase(random, i, small ? 700 : 6000));

  int failures = 0;
  double worst = 0;
  const auto report = [&](const std::string& name, const std::string& fault) {
    if (fault.empty()) return;
    if (++failures <= 40) std::printf("FAIL %s: %s\n", name.c_str(), fault.c_str());
  };
  std::vector<PreparedCase> prepared = PrepareAll(cases);
  std::printf("%zu cases prepared\n", cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    report(Describe(cases[i]), Compare(**paged, **standard, prepared[i], &worst));
  }
  const std::vector<PagedProperty> properties = small ? std::vector<PagedProperty>{} : PagedProperties();
  std::printf("%zu cases compared\n", cases.size());
  for (const PagedProperty& property : properties) {
    report(property.name, property.check(**paged, random));
    std::printf("looked whether %s\n", property.name.c_str());
  }
  std::printf("%s: %zu cases and %zu properties, %d failed, largest error / bound %.3f\n",
              failures ? "FAILED" : "PASSED", cases.size(), properties.size(), failures, worst);
  return failures ? 1 : 0;
}

}  // namespace tessera::gpu_test

int main(int argc, char** argv) { return tessera::gpu_test::Main(argc, argv); }
