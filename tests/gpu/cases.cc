#include "tests/gpu/cases.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tessera::gpu_test {

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
  // Some on both sides of where the length decides which kernel computes a sequence.
  auto keys = [&]() -> int64_t {
    return random() % 4 == 0 ? std::min<int64_t>(pick(2047, 2048, 4095, 4096, 4200), max_len) : length();
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
    test.sequences.push_back({q, random() % 2 ? q : keys()});
  }
  test.name = "random";
  return test;
}

namespace {

class CaseList {
 public:
  explicit CaseList(DType dtype) : dtype_(dtype) {}

  Case& Add(const char* name, int heads, int kv_heads, int d, Mask mask, std::vector<Lengths> lengths) {
    Case test;
    test.name = name;
    test.params = {dtype_, heads, kv_heads, d, DefaultScale(d), mask, 0};
    test.sequences = std::move(lengths);
    cases_.push_back(std::move(test));
    return cases_.back();
  }
  std::vector<Case> Take() { return std::move(cases_); }

 private:
  DType dtype_;
  std::vector<Case> cases_;
};

void AddFaults(int d, CaseList& list) {
  list.Add("F01 F05 causal, more queries than keys", 2, 2, d, Mask::Causal(), {{300, 100}, {129, 1}, {77, 0}});
  list.Add("F01 F05 q = 76, 34, 146 and one key", 2, 2, d, Mask::Causal(), {{76, 1}, {34, 1}, {146, 1}});
  Case& low = list.Add("F02 all logits below -5e4", 2, 1, d, Mask::Causal(), {{200, 200}, {10, 500}});
  low.mean = std::sqrt(6.5e4 / d);
  low.magnitude = 0.01;
  low.params.scale = 1;
  list.Add("F02 first block masked whole for some rows", 1, 1, d, Mask::Window(3, -1), {{700, 300}});
  list.Add("F03 F07 F09 empty sequences between others", 2, 2, d, Mask::Full(),
           {{0, 0}, {100, 100}, {0, 50}, {50, 0}, {1, 1}});
  list.Add("F04 all scores zero: LSE = ln of the keys", 1, 1, d, Mask::Full(), {{70, 1000}}).magnitude = 0;
  list.Add("F06 huge window", 2, 2, d, Mask::Window(int64_t{1} << 62, int64_t{1} << 62), {{200, 300}});
  list.Add("F08 NaN in hidden values, causal", 2, 1, d, Mask::Causal(), {{300, 300}, {64, 400}}).nan_fraction = 0.01;
  list.Add("F08 NaN in hidden values, window", 2, 2, d, Mask::Window(40, 10), {{500, 500}}).nan_fraction = 0.005;
  list.Add("F08 NaN in seen values", 1, 1, d, Mask::Full(), {{100, 300}}).nan_fraction = 0.01;
  list.Add("F15 transposed tensors", 4, 2, d, Mask::Causal(), {{150, 200}, {65, 129}}).layout = Layout::kTransposed;
}

// Every head_dim, and every number of query heads for a key head that F09's packing of rows must get right.
void AddHeads(CaseList& list) {
  for (int group = 1; group <= 64; ++group) {
    const int head_dim = 8 * (1 + group % 32);
    list.Add("every head_dim and every group", group, 1, head_dim, Mask::Causal(), {{1, 200}, {9, 65}, {40, 40}});
  }
}

void AddWindows(CaseList& list) {
  int d = 0;
  for (int64_t left = 0; left <= 400; left += 13) {
    constexpr int kHeadDims[] = {64, 96, 128, 192, 256};
    list.Add("F14 windows of every width", 1, 1, kHeadDims[d++ % 5], Mask::Window(left, left % 4 * 40 - 1),
             {{400, 400}});
  }
}

}  // namespace

std::vector<Case> ChosenCases(DType dtype) {
  CaseList list(dtype);
  for (int d : {64, 96, 128, 192, 256}) AddFaults(d, list);
  AddHeads(list);
  AddWindows(list);
  for (int d : {8, 64, 104, 256}) {
    Case& odd = list.Add("tensors off 16-byte boundaries", 4, 2, d, Mask::Causal(), {{100, 130}, {33, 33}});
    odd.misalign = 3;
    odd.layout = Layout::kPadded;
  }
  for (int d : {64, 128}) {
    for (Mask mask : {Mask::Full(), Mask::Causal()}) {
      list.Add("kernels of several lengths in one call", 4, 2, d, mask,
               {{300, 4096}, {130, 4095}, {1, 5000}, {200, 2048}, {2047, 2047}, {4500, 4400}});
      list.Add("F08 NaN in seen values, many keys", 1, 1, d, mask, {{100, 4200}}).nan_fraction = 0.001;
    }
  }
  list.Add("F08 NaN in seen values, 100000 keys", 1, 1, 64, Mask::Causal(), {{8, 100000}}).nan_fraction = 0.00001;
  list.Add("100000 keys", 1, 1, 128, Mask::Causal(), {{64, 100000}});
  list.Add("100000 queries", 1, 1, 128, Mask::Full(), {{100000, 50}});
  list.Add("100000 queries and keys, window", 1, 1, 64, Mask::Window(100, 0), {{100000, 100000}});
  Case& many = list.Add("F11 70000 sequences", 1, 1, 8, Mask::Causal(), {});
  many.sequences.assign(70000, {1, 1});
  return list.Take();
}

}  // namespace tessera::gpu_test
