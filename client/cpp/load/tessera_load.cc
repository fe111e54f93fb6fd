// tessera-load: offers load to a Tessera server and tells what it made of it. docs/load_testing.md is its manual.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/flags/command_line.h"
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

// Whether the file can be written: asked before a run, whose report would be lost. Leaves what it holds.
bool Writable(const std::string& path) {
  return path.empty() || std::ofstream(path, std::ios::binary | std::ios::app).good();
}

// True where no file is wanted.
bool WriteFile(const std::string& path, const std::string& content) {
  if (path.empty()) return true;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  return file.good();
}

// Prints and writes the reports, each whatever becomes of the others. The exit code.
int Deliver(const tessera::load::LoadConfig& config, const std::string& text, const std::string& json,
            const std::string& html) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  const bool printed = std::fflush(stdout) == 0;
  int code = printed ? 0 : Fail(kExitFailed, "cannot write to standard output");
  if (!WriteFile(config.json_path, json)) code = Fail(kExitFailed, absl::StrCat("cannot write ", config.json_path));
  if (!WriteFile(config.html_path, html)) code = Fail(kExitFailed, absl::StrCat("cannot write ", config.html_path));
  return code;
}

int Decode(const tessera::load::LoadConfig& config) {
  absl::StatusOr<tessera::load::DecodeReport> report = tessera::load::RunDecode(config, &interrupted);
  if (!report.ok()) return Fail(kExitFailed, report.status().ToString());
  report->configuration = tessera::load::FlagValues();
  if (const int code =
          Deliver(config, tessera::load::RenderDecodeText(*report), tessera::load::RenderDecodeJson(*report), "");
      code != 0) {
    return code;
  }
  if (!report->ended.ok()) return Fail(kExitFailed, report->ended.ToString());
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
  const std::vector<char*> rest = tessera::ParseFlags(argc, argv);
  if (rest.size() > 1) return Fail(tessera::kWrongUsage, absl::StrCat("unexpected argument: ", rest[1]));
  if (const std::string address = load::ServeEchoAddress(); !address.empty()) return ServeEcho(address);
  const absl::StatusOr<load::LoadConfig> config = load::ConfigFromFlags();
  if (!config.ok()) return Fail(tessera::kWrongUsage, std::string(config.status().message()));

  for (const std::string& path : {config->json_path, config->html_path}) {
    if (!Writable(path)) return Fail(tessera::kWrongUsage, absl::StrCat("cannot write ", path));
  }

  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
  if (config->decode.has_value()) return Decode(*config);
  absl::StatusOr<load::Report> report = load::RunLoadTest(*config, &interrupted);
  if (!report.ok()) return Fail(kExitFailed, report.status().ToString());
  report->configuration = load::FlagValues();

  if (const int code =
          Deliver(*config, load::RenderText(*report), load::RenderJson(*report), load::RenderHtml(*report));
      code != 0) {
    return code;
  }
  if (!report->ended.ok()) return Fail(kExitFailed, report->ended.ToString());
  if (report->check.has_value() && report->check->wrong_rows > 0) return Fail(kExitFailed, "wrong answers");
  if (report->targets[0].stats.total.ok == 0) return Fail(kExitFailed, "no request was answered");
  return 0;
}
