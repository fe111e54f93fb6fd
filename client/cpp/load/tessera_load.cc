// tessera-load: offers load to a Tessera server and tells what it made of it. docs/load_testing.md is its manual.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/flags/flag_names.h"
#include "client/cpp/load/decode/decode_run.h"
#include "client/cpp/load/echo_server.h"
#include "client/cpp/load/load_flags.h"
#include "client/cpp/load/load_run.h"

namespace {

constexpr char kUsage[] =
    "offers load to a Tessera server.\n"
    "  tessera-load --target=host:7171 --shape=s=128,mask=causal --callers=64          closed loop\n"
    "  tessera-load --mode=poisson --rate=500 --html=report.html                        open loop\n"
    "  tessera-load --mode=ramp --slo_p99=20ms                                          find the knee\n"
    "  tessera-load --decode=profile=main,prefill=512,steps=64                          sequences that decode\n"
    "  tessera-load --echo                                                              the raw wire beside it";

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set by a signal handler");

// The first signal ends the run and reports it; the second one ends the program.
void OnSignal(int signal) {
  interrupted.store(true);
  std::signal(signal, SIG_DFL);
}

int Fail(int code, const std::string& message) {
  absl::FPrintF(stderr, "tessera-load: %s\n", message);
  return code;
}

int ServeEcho(const std::string& address) {
  // Waited for by sigwait instead of a handler: there is nothing to report.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto server = tessera::load::EchoServer::Start(address);
  if (!server.ok()) return Fail(kExitFailed, std::string(server.status().message()));
  absl::PrintF("echo on port %d\n", (*server)->port());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  return 0;
}

bool WriteFile(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  return file.good();
}

// Prints and writes the reports. False where that cannot be.
bool Deliver(const tessera::load::LoadConfig& config, const std::string& text, const std::string& json) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  return config.json_path.empty() || WriteFile(config.json_path, json);
}

int Decode(const tessera::load::LoadConfig& config) {
  absl::StatusOr<tessera::load::DecodeReport> report = tessera::load::RunDecode(config, &interrupted);
  if (!report.ok()) return Fail(kExitFailed, report.status().ToString());
  report->configuration = tessera::load::FlagValues();
  if (!Deliver(config, tessera::load::RenderDecodeText(*report), tessera::load::RenderDecodeJson(*report))) {
    return Fail(kExitFailed, absl::StrCat("cannot write ", config.json_path));
  }
  if (report->check.has_value() && report->check->wrong_rows > 0) return Fail(kExitFailed, "wrong answers");
  if (report->targets[0].stats.tokens == 0) return Fail(kExitFailed, "no token was decoded");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  namespace load = tessera::load;
  // As in the server: the check for lock cycles costs more than a small call, the echo's calls included.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  absl::SetProgramUsageMessage(kUsage);
  absl::FlagsUsageConfig usage;
  usage.contains_helpshort_flags = &load::IsOfThisProgram;
  usage.contains_help_flags = usage.contains_helpshort_flags;
  absl::SetFlagsUsageConfig(usage);
  tessera::AcceptDashesInFlagNames(argc, argv);
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (rest.size() > 1) return Fail(kExitUsage, absl::StrCat("unexpected argument: ", rest[1]));
  if (const std::string address = load::ServeEchoAddress(); !address.empty()) return ServeEcho(address);
  const absl::StatusOr<load::LoadConfig> config = load::ConfigFromFlags();
  if (!config.ok()) return Fail(kExitUsage, std::string(config.status().message()));

  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
  if (config->decode.has_value()) return Decode(*config);
  absl::StatusOr<load::Report> report = load::RunLoadTest(*config, &interrupted);
  if (!report.ok()) return Fail(kExitFailed, report.status().ToString());
  report->configuration = load::FlagValues();

  if (!Deliver(*config, load::RenderText(*report), load::RenderJson(*report))) {
    return Fail(kExitFailed, absl::StrCat("cannot write ", config->json_path));
  }
  if (!config->html_path.empty() && !WriteFile(config->html_path, load::RenderHtml(*report))) {
    return Fail(kExitFailed, absl::StrCat("cannot write ", config->html_path));
  }
  if (report->check.has_value() && report->check->wrong_rows > 0) return Fail(kExitFailed, "wrong answers");
  if (report->targets[0].stats.total.ok == 0) return Fail(kExitFailed, "no request was answered");
  return 0;
}
