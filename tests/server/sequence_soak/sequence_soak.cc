// Random operations on resident sequences by several processes of two tenants, which are killed again and again, cancel
// in mid-step, try each other's handles, and leave sequences to their leases. Fails where an answer is not one that its
// call may have, a row is not the caller's own, a page or a sequence is left in the end, the server's memory grows, or
// something that an operation may come to has never happened.
//
//   sequence_soak --server=PATH [--operations=20000] [--workers=6] [--growth=0.03] [--seed=N]
//
// Memory is compared after the first fifth of the operations (warm-up) and at the end, both times with all sequences
// gone.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/create_channel.h"
#include "tests/server/await.h"
#include "tests/server/metrics_reader.h"
#include "tests/server/profile_flag.h"
#include "tests/server/sequence_soak/ledger.h"
#include "tests/server/sequence_soak/worker.h"
#include "tests/server/server_process.h"

ABSL_FLAG(std::string, server, "", "Path of tessera-server");
ABSL_FLAG(int64_t, operations, 20000, "Operations of all workers together, those of killed ones included");
ABSL_FLAG(int, workers, 6, "Processes at work at a time, of two tenants in turn");
ABSL_FLAG(double, growth, 0.03, "Growth of resident memory that is allowed");
ABSL_FLAG(absl::Duration, lease, absl::Milliseconds(200), "How long a sequence lives unused");
ABSL_FLAG(absl::Duration, kill_every, absl::Milliseconds(300), "Time from one kill to the next");
ABSL_FLAG(uint64_t, seed, std::random_device()(), "Seed of all choices");
ABSL_FLAG(int, worker, -1, "For the program's own use: the number of the worker that this process is");
ABSL_FLAG(int, ledger, -1, "For the program's own use: the ledger's file");
ABSL_FLAG(std::string, target, "", "For the program's own use: the server's address");

namespace tessera::testing {
namespace {

int Work() {
  SoakWorker worker(grpc::CreateChannel(absl::GetFlag(FLAGS_target), grpc::InsecureChannelCredentials()),
                    SoakProfile(absl::GetFlag(FLAGS_lease)), absl::GetFlag(FLAGS_worker), absl::GetFlag(FLAGS_workers),
                    absl::GetFlag(FLAGS_seed), &SoakLedger::Map(absl::GetFlag(FLAGS_ledger)));
  while (worker.Step()) continue;
  return 1;
}

// The workers' processes. Not thread-safe.
class Crew {
 public:
  Crew(std::string target, int size, uint64_t seed)
      : target_(std::move(target)), ledger_file_(SoakLedger::CreateFile()), rng_(seed), processes_(size, -1) {}
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() { KillAll(); }

  SoakLedger& ledger() { return SoakLedger::Map(ledger_file_); }

  void Start() {
    for (size_t i = 0; i < processes_.size(); ++i) Start(i);
  }
  // Kills one, and starts another in its place.
  void Replace() {
    const size_t i = rng_() % processes_.size();
    Kill(i);
    Start(i);
    ++replaced_;
  }
  void KillAll() {
    for (size_t i = 0; i < processes_.size(); ++i) Kill(i);
  }
  // Whether all that have been started and not been killed still run. Says on standard error how one has ended.
  bool AllRun() {
    for (size_t i = 0; i < processes_.size(); ++i) {
      int status = 0;
      if (processes_[i] <= 0 || waitpid(processes_[i], &status, WNOHANG) == 0) continue;
      processes_[i] = -1;
      std::cerr << "worker " << i << " has ended by itself, "
                << (WIFSIGNALED(status) ? absl::StrCat("by signal ", WTERMSIG(status))
                                        : absl::StrCat("with ", WEXITSTATUS(status)))
                << "\n";
      return false;
    }
    return true;
  }
  int64_t replaced() const { return replaced_; }

 private:
  void Start(size_t i) {
    std::vector<std::string> arguments = {"sequence_soak",
                                          absl::StrCat("--worker=", i),
                                          absl::StrCat("--workers=", processes_.size()),
                                          absl::StrCat("--ledger=", ledger_file_),
                                          absl::StrCat("--seed=", rng_()),
                                          absl::StrCat("--lease=", absl::FormatDuration(absl::GetFlag(FLAGS_lease))),
                                          absl::StrCat("--target=", target_)};
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const pid_t parent = getpid();
    processes_[i] = fork();
    if (processes_[i] != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  void Kill(size_t i) {
    if (processes_[i] <= 0) return;
    kill(processes_[i], SIGKILL);
    waitpid(processes_[i], nullptr, 0);
    processes_[i] = -1;
  }

  const std::string target_;
  const int ledger_file_;
  std::mt19937_64 rng_;
  std::vector<pid_t> processes_;
  int64_t replaced_ = 0;
};

// Lets the crew work until `operations` have been done. False where one of it ended by itself.
bool RunUntil(int64_t operations, Crew& crew) {
  crew.Start();
  absl::Time next_kill = absl::Now() + absl::GetFlag(FLAGS_kill_every);
  while (crew.ledger().operations() < operations) {
    absl::SleepFor(absl::Milliseconds(20));
    if (!crew.AllRun()) return false;
    if (absl::Now() < next_kill) continue;
    crew.Replace();
    next_kill = absl::Now() + absl::GetFlag(FLAGS_kill_every);
  }
  crew.KillAll();
  return true;
}

// Resident memory once every sequence is gone, in bytes; nothing where some remain.
std::optional<int64_t> MeasureIdle(const ServerProcess& server, const CacheProfile& profile) {
  std::string left;
  const bool idle = AwaitWithTimeout(
      [&] {
        const MetricsReader metrics = MetricsReader::Scrape(server.metrics_port());
        const double used = metrics["tessera_kv_pages{profile=\"soak\",state=\"used\"}"];
        const double free = metrics["tessera_kv_pages{profile=\"soak\",state=\"free\"}"];
        const double sequences = metrics["tessera_kv_sequences{profile=\"soak\"}"];
        left = absl::StrCat(used, " pages used, ", free, " free of ", profile.pages, ", ", sequences, " sequences");
        return used == 0 && free == profile.pages && sequences == 0 && metrics["tessera_inflight_bytes"] == 0;
      },
      kLongestWait);
  std::cout << "all workers killed: " << left << "\n" << std::flush;
  if (!idle) return std::nullopt;
  return server.ResidentBytes();
}

// Prints what the operations came to. False, having said what on standard error, where something never happened: then
// the soak has not tried what it is for.
bool AllHappened(const Crew& crew, const SoakLedger& ledger) {
  bool all = crew.replaced() > 0;
  if (!all) std::cerr << "no worker was killed\n";
  for (size_t i = 0; i < kSoakOutcomes.size(); ++i) {
    const int64_t count = ledger.counted(static_cast<SoakOutcome>(i));
    std::cout << "  " << kSoakOutcomes[i] << ": " << count << "\n";
    if (count > 0) continue;
    std::cerr << "never happened: " << kSoakOutcomes[i] << "\n";
    all = false;
  }
  return all;
}

int Soak() {
  const uint64_t seed = absl::GetFlag(FLAGS_seed);
  const int64_t operations = absl::GetFlag(FLAGS_operations);
  const CacheProfile profile = SoakProfile(absl::GetFlag(FLAGS_lease));
  std::cout << "seed " << seed << ", " << operations << " operations\n" << std::flush;
  const ServerProcess server(absl::GetFlag(FLAGS_server),
                             {ProfileFlag(profile), "--staging-bytes=64MiB", "--log-level=error"});
  if (!server.serving()) {
    std::cerr << "the server does not start\n";
    return 1;
  }
  Crew crew(server.target(), absl::GetFlag(FLAGS_workers), seed);
  const absl::Time begun = absl::Now();
  if (!RunUntil(operations / 5, crew)) return 1;
  const std::optional<int64_t> before = MeasureIdle(server, profile);
  if (!before.has_value()) return 1;
  constexpr int kSamples = 8;
  for (int sample = 1; sample <= kSamples; ++sample) {
    if (!RunUntil(operations / 5 + operations * 4 / 5 * sample / kSamples, crew)) return 1;
    std::cout << "  " << crew.ledger().operations() << " operations, resident: " << server.ResidentBytes() / 1024
              << " KiB\n"
              << std::flush;
  }
  const std::optional<int64_t> after = MeasureIdle(server, profile);
  if (!after.has_value()) return 1;

  const bool all_happened = AllHappened(crew, crew.ledger());
  const double growth = static_cast<double>(*after - *before) / static_cast<double>(*before);
  std::cout << crew.ledger().operations() << " operations in " << absl::FormatDuration(absl::Now() - begun) << ", "
            << crew.replaced() << " workers killed and replaced\n"
            << "resident: " << *before / 1024 << " KiB after warm-up, " << *after / 1024 << " KiB at the end, growth "
            << std::round(growth * 10000) / 100 << " %\n";
  if (growth > absl::GetFlag(FLAGS_growth)) {
    std::cerr << "resident memory grew by more than " << absl::GetFlag(FLAGS_growth) * 100 << " %\n";
    return 1;
  }
  return all_happened ? 0 : 1;
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return absl::GetFlag(FLAGS_worker) >= 0 ? tessera::testing::Work() : tessera::testing::Soak();
}
