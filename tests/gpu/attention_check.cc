// Compares the CUDA backend with attention in double precision over random and chosen cases, on one GPU.
//
//   attention_check [--family=sm90a|sm80|standard] [--seed=N] [--cases=N] [--small]
//
// Inputs lie between guard elements that are NaN, outputs are poisoned beforehand, and every element that attention
// must not write is checked to be untouched. The bound on the error is twice that of standard attention in the same
// element type (three times with a softcap) plus a small absolute term. Exit status 0: all cases passed.
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/standard/standard_backend.h"
#include "tests/gpu/attention_case.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/comparison.h"
#include "tests/gpu/properties.h"

namespace tessera::gpu_test {
namespace {

constexpr int64_t kScoreBudget = int64_t{1} << 20;  // bytes, of standard attention: several sets of heads where long

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
  absl::StatusOr<std::unique_ptr<cuda::GpuBackend>> created =
      family == "standard"
          ? cuda::CreateStandardBackend(0, kScoreBudget)
          : cuda::CreateCudaBackend(0, family == "sm80" ? cuda::KernelFamily::kSm80 : cuda::KernelFamily::kSm90a);
  if (!created.ok()) return std::fprintf(stderr, "%s\n", created.status().ToString().c_str()), 2;
  AttentionBackend& backend = **created;
  const bool stores_scores = family == "standard";
  std::vector<DType> dtypes = {DType::kFloat16, DType::kBFloat16};
  if (family != "sm90a") dtypes.push_back(DType::kFloat32);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what a run that is cut off has found stays in its log
  std::printf("family %s, seed %llu\n", family.c_str(), static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);

  std::vector<Case> cases;
  if (!small) {
    for (DType dtype : dtypes) {
      for (const Case& test : ChosenCases(dtype)) cases.push_back(test);
    }
  }
  for (int i = 0; i < random_cases; ++i) cases.push_back(RandomCase(random, dtypes, small ? 300 : 4200));

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
          report("F12 repeats " + std::string(Name(dtype)) + " d " + std::to_string(d),
                 CheckRepeatable(backend, dtype, d, mask, random));
          ++others;
        }
      }
      report("F10 rows 2^28 elements apart", CheckFarApart(backend, dtype, random));
      report("F06 window equals causal", CheckWindowEqualsCausal(backend, dtype, random));
      others += 2;
    }
  }
  std::printf("%s: %zu cases and %d properties, %d failed, largest error / bound %.3f\n",
              failures ? "FAILED" : "PASSED", cases.size(), others, failures, worst);
  return failures ? 1 : 0;
}

}  // namespace tessera::gpu_test

int main(int argc, char** argv) { return tessera::gpu_test::Main(argc, argv); }
