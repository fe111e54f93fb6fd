// Speed and memory of the CPU forward, beside standard attention and beside OpenBLAS's sgemm on the same cores.
//
//   forward_bench [--threads=N] [--rounds=R] [--heads=H] [--json=FILE] [--cpu-time] [--skip-long] [--skip-memory]
//
// Everything that is compared is measured in turn, round after round, so that a busy machine disturbs all alike; rates
// are those of the best round. --cpu-time counts the thread's processor time instead of the wall clock's: for one
// thread on a machine that others use too. GFLOP/s counts useful work: 4 * head_dim a visible (row, key) pair, 2 m n k
// a product. Tensors lie in memory advised to be huge pages, like the server's staging memory.
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/attention.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/dtype_dispatch.h"
#include "kernels/standard/standard.h"
#include "kernels/traffic_model.h"

#if TESSERA_HAVE_CBLAS
#include <cblas.h>
#endif

namespace tessera {
namespace {

// Bytes on huge pages where there are any.
class Buffer {
 public:
  explicit Buffer(int64_t bytes) {
    const int64_t size = (bytes + kPage - 1) / kPage * kPage;
    data_.reset(static_cast<char*>(std::aligned_alloc(kPage, size)));
    madvise(data_.get(), size, MADV_HUGEPAGE);
    std::fill_n(data_.get(), size, '\0');
  }

  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  static constexpr int64_t kPage = int64_t{2} << 20;
  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  std::unique_ptr<char[], Free> data_;
};

// One sequence of `length` tokens, heads side by side.
struct Workload {
  Workload(DType dtype, int64_t length, int32_t heads, int32_t head_dim, Mask mask)
      : params{.dtype = dtype,
               .q_heads = heads,
               .kv_heads = heads,
               .head_dim = head_dim,
               .scale = 1 / std::sqrt(static_cast<float>(head_dim)),
               .mask = mask} {
    const int64_t elements = length * heads * head_dim;
    const Strides packed = Strides::Packed(heads, head_dim);
    for (int i = 0; i < 4; ++i) tensors.emplace_back(elements * SizeOf(dtype));
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    DispatchDType(dtype, [&](auto element) {
      for (int i = 0; i < 3; ++i) {
        auto* data = tensors[i].as<decltype(element)>();
        for (int64_t e = 0; e < elements; ++e) data[e] = FromFloat<decltype(element)>(normal(random));
      }
    });
    view = {.q_len = length,
            .kv_len = length,
            .q = tensors[0].as<void>(),
            .k = tensors[1].as<void>(),
            .v = tensors[2].as<void>(),
            .o = tensors[3].as<void>(),
            .q_strides = packed,
            .k_strides = packed,
            .v_strides = packed,
            .o_strides = packed};
  }

  double flops() const { return ForwardFlops(params, view); }
  void Run(AttentionBackend& backend) const {
    if (const absl::Status status = backend.Forward(params, {&view, 1}, nullptr, nullptr); !status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      std::exit(1);
    }
  }

  AttentionParams params;
  std::vector<Buffer> tensors;
  SequenceView view;
};

double Now(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Something measured once a round.
struct Contender {
  std::string name;
  double flops;
  std::function<void()> work;
  std::vector<double> seconds = {};

  double rate() const { return flops / *std::min_element(seconds.begin(), seconds.end()) * 1e-9; }
};

// OpenBLAS's threads go on spinning for some 30 ms after a product (2^26 cycles unless OPENBLAS_THREAD_TIMEOUT says
// otherwise): what is measured right after one would have to share the cores with them.
constexpr absl::Duration kUntilThreadsRest = absl::Milliseconds(60);

void Measure(std::vector<Contender>& contenders, int rounds, clockid_t clock) {
  for (Contender& contender : contenders) contender.work();  // warm-up
  for (int round = 0; round < rounds; ++round) {
    for (Contender& contender : contenders) {
      absl::SleepFor(kUntilThreadsRest);
      const double start = Now(clock);
      contender.work();
      contender.seconds.push_back(Now(clock) - start);
    }
  }
}

// sgemm's best rate over the shapes that attention is made of and a large square one; 0 without OpenBLAS.
class Gemm {
 public:
  Gemm(int threads, int64_t length, int64_t head_dim) {
#if TESSERA_HAVE_CBLAS
    openblas_set_num_threads(threads);
    const int64_t square = 2048;
    const int64_t shapes[][3] = {{length, length, head_dim}, {length, head_dim, length}, {square, square, square}};
    for (const auto& [m, n, k] : shapes) {
      auto a = std::make_shared<Buffer>(m * k * 4);
      auto b = std::make_shared<Buffer>(k * n * 4);
      auto c = std::make_shared<Buffer>(m * n * 4);
      contenders_.push_back({absl::StrCat("sgemm ", m, "x", n, "x", k), 2.0 * m * n * k, [=, m = m, n = n, k = k] {
                               cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a->as<float>(), k,
                                           b->as<float>(), n, 0, c->as<float>(), n);
                             }});
    }
#else
    static_cast<void>(threads), static_cast<void>(length), static_cast<void>(head_dim);
#endif
  }

  static std::string Description() {
#if TESSERA_HAVE_CBLAS
    return absl::StrCat("OpenBLAS kernel ", openblas_get_corename());
#else
    return "built without OpenBLAS";
#endif
  }

  std::vector<Contender>& contenders() { return contenders_; }

 private:
  std::vector<Contender> contenders_;
};

struct Options {
  int threads = AvailableCores();
  int rounds = 5;
  int heads = 8;
  clockid_t clock = CLOCK_MONOTONIC;
  std::string json;
  bool with_long = true;
  bool with_memory = true;
};

std::string MaskName(const Mask& mask) { return mask == Mask::Causal() ? "causal" : "full"; }

// The table of S = 2048: rates, and their ratios to standard attention and to sgemm. Returns JSON objects.
std::vector<std::string> CompareRates(const Options& options) {
  constexpr int64_t kLength = 2048;
  std::vector<std::string> json;
  const auto cpu = MakeCpuBackend(options.threads);
  const auto standard = MakeStandardBackend(options.threads);
  std::printf("\nS = %d, %d heads, %d threads, best of %d rounds; %s\n", static_cast<int>(kLength), options.heads,
              options.threads, options.rounds, Gemm::Description().c_str());
  std::printf("%-9s %4s %-7s %12s %12s %10s %12s %9s\n", "dtype", "d", "mask", "cpu GFLOP/s", "std GFLOP/s", "cpu/std",
              "sgemm", "cpu/sgemm");
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int head_dim : {64, 128}) {
      for (const Mask& mask : {Mask::Full(), Mask::Causal()}) {
        const Workload workload(dtype, kLength, options.heads, head_dim, mask);
        std::vector<Contender> contenders = std::move(Gemm(options.threads, kLength, head_dim).contenders());
        const size_t products = contenders.size();
        contenders.push_back({"cpu", workload.flops(), [&] { workload.Run(*cpu); }});
        contenders.push_back({"standard", workload.flops(), [&] { workload.Run(*standard); }});
        Measure(contenders, options.rounds, options.clock);
        double gemm = 0;
        for (size_t i = 0; i < products; ++i) gemm = std::max(gemm, contenders[i].rate());
        const double rate = contenders[products].rate();
        const double baseline = contenders[products + 1].rate();
        const double ratio = gemm > 0 ? rate / gemm : std::numeric_limits<double>::quiet_NaN();
        const std::string name(Name(dtype));
        std::printf("%-9s %4d %-7s %12.1f %12.1f %10.2f %12.1f %9.2f\n", name.c_str(), head_dim, MaskName(mask).c_str(),
                    rate, baseline, rate / baseline, gemm, ratio);
        json.push_back(absl::StrFormat(
            R"({"dtype":"%s","head_dim":%d,"mask":"%s","length":%d,"cpu_gflops":%.2f,"standard_gflops":%.2f,"sgemm_gflops":%.2f})",
            name, head_dim, MaskName(mask), kLength, rate, baseline, gemm));
      }
    }
  }
  return json;
}

// Causal against full at S = 8192.
std::vector<std::string> CompareCausal(const Options& options) {
  constexpr int64_t kLength = 8192;
  const auto cpu = MakeCpuBackend(options.threads);
  const int heads = std::max(1, options.heads / 4);
  const Workload full(DType::kFloat32, kLength, heads, 128, Mask::Full());
  const Workload causal(DType::kFloat32, kLength, heads, 128, Mask::Causal());
  std::vector<Contender> contenders = {{"full", full.flops(), [&] { full.Run(*cpu); }},
                                       {"causal", causal.flops(), [&] { causal.Run(*cpu); }}};
  Measure(contenders, std::min(options.rounds, 3), options.clock);
  const double speedup = (full.flops() / contenders[0].rate()) / (causal.flops() / contenders[1].rate());
  std::printf("\nS = %d, %d heads, d = 128, float32: causal is %.2fx as fast as full (%.1f and %.1f GFLOP/s)\n",
              static_cast<int>(kLength), heads, speedup, contenders[1].rate(), contenders[0].rate());
  return {absl::StrFormat(R"({"length":%d,"causal_speedup":%.3f})", kLength, speedup)};
}

// A line of /proc/self/status, in KiB.
int64_t ProcessKiB(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (absl::StartsWith(line, field)) return std::atoll(line.c_str() + field.size() + 1);
  }
  return 0;
}

// KiB by which a call raises the peak of the process over what its tensors take.
int64_t PeakKiB(const Workload& workload, AttentionBackend& backend) {
  std::ofstream("/proc/self/clear_refs") << "5";  // resets VmHWM to VmRSS
  const int64_t before = ProcessKiB("VmRSS");
  workload.Run(backend);
  return ProcessKiB("VmHWM") - before;
}

std::vector<std::string> CompareMemory(const Options& options) {
  constexpr int64_t kLongestStandard = 8192;
  std::vector<std::string> json;
  std::printf("\nPeak memory beside the tensors, one head, d = 128, float32, causal\n%8s %14s %14s %14s\n", "N",
              "tensors KiB", "cpu KiB", "standard KiB");
  for (int64_t length = 2048; length <= 32768; length *= 2) {
    const Workload workload(DType::kFloat32, length, 1, 128, Mask::Causal());
    const int64_t cpu = PeakKiB(workload, *MakeCpuBackend(options.threads));
    const int64_t standard = length <= kLongestStandard ? PeakKiB(workload, *MakeStandardBackend(options.threads)) : -1;
    const int64_t tensors = 4 * length * 128 * 4 / 1024;
    std::printf("%8d %14d %14d %14s\n", static_cast<int>(length), static_cast<int>(tensors), static_cast<int>(cpu),
                standard < 0 ? "not run" : std::to_string(standard).c_str());
    json.push_back(absl::StrFormat(R"({"length":%d,"tensors_kib":%d,"cpu_kib":%d,"standard_kib":%d})", length, tensors,
                                   cpu, standard));
  }
  return json;
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    const bool known = (absl::ConsumePrefix(&argument, "--threads=") && absl::SimpleAtoi(argument, &options.threads)) ||
                       (absl::ConsumePrefix(&argument, "--rounds=") && absl::SimpleAtoi(argument, &options.rounds)) ||
                       (absl::ConsumePrefix(&argument, "--heads=") && absl::SimpleAtoi(argument, &options.heads));
    if (known) continue;
    if (absl::ConsumePrefix(&argument, "--json=")) {
      options.json = std::string(argument);
    } else if (argument == "--cpu-time") {
      options.clock = CLOCK_THREAD_CPUTIME_ID;
    } else if (argument == "--skip-long") {
      options.with_long = false;
    } else if (argument == "--skip-memory") {
      options.with_memory = false;
    } else {
      std::fprintf(stderr, "unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  if (options.clock == CLOCK_THREAD_CPUTIME_ID && options.threads != 1) {
    std::fprintf(stderr, "--cpu-time needs --threads=1\n");
    return 2;
  }
  std::vector<std::string> sections;
  const auto add = [&](const char* name, const std::vector<std::string>& objects) {
    sections.push_back(absl::StrCat("\"", name, "\":[", absl::StrJoin(objects, ","), "]"));
  };
  if (options.with_memory) add("memory", CompareMemory(options));
  add("rates", CompareRates(options));
  if (options.with_long) add("causal", CompareCausal(options));
  if (!options.json.empty()) {
    std::ofstream(options.json) << "{\"threads\":" << options.threads << "," << absl::StrJoin(sections, ",") << "}\n";
  }
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::Main(argc, argv); }
