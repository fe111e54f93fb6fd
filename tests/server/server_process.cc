#include "tests/server/server_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/base/internal/raw_logging.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "tests/server/await.h"

namespace tessera::testing {

ServerProcess::ServerProcess(const std::string& binary, const std::vector<std::string>& flags,
                             const std::vector<std::string>& environment, int max_files) {
  std::vector<std::string> arguments = {binary, "--listen=127.0.0.1:0", "--metrics_address=127.0.0.1:0"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<std::string> variables = environment;
  std::vector<char*> envp;
  for (std::string& variable : variables) envp.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable) envp.push_back(*variable);
  envp.push_back(nullptr);

  int pipe_fds[2];
  if (pipe(pipe_fds) != 0) return;
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    const auto files = static_cast<rlim_t>(max_files);
    const rlimit limit = {files, files};
    if (max_files > 0 && setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(127);
    dup2(pipe_fds[1], STDOUT_FILENO);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    execve(binary.c_str(), argv.data(), envp.data());
    _exit(127);
  }
  close(pipe_fds[1]);
  std::string line;
  for (char c; read(pipe_fds[0], &c, 1) == 1 && c != '\n';) line.push_back(c);
  close(pipe_fds[0]);
  const nlohmann::json serving = nlohmann::json::parse(line, nullptr, false);
  if (!serving.is_object() || serving.value("event", "") != "serving") return;
  grpc_port_ = serving.value("grpc_port", 0);
  metrics_port_ = serving.value("metrics_port", 0);
}

ServerProcess::~ServerProcess() {
  if (pid_ <= 0) return;
  Signal(SIGKILL);
  Wait();
}

void ServerProcess::Signal(int signal) const {
  kill(pid_, signal);
  // A process that is asked to stop goes on until all of its threads have.
  siginfo_t stopped;
  if (signal == SIGSTOP) waitid(P_PID, static_cast<id_t>(pid_), &stopped, WSTOPPED | WNOWAIT);
}

void ServerProcess::SetMaxFiles(int max_files) const {
  const auto files = static_cast<rlim_t>(max_files);
  const rlimit limit = {files, files};
  ABSL_RAW_CHECK(prlimit(pid_, RLIMIT_NOFILE, &limit, nullptr) == 0, "prlimit");
}

int ServerProcess::Wait() {
  // glibc 2.36 declares pidfd_open for C alone.
  const int process = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (process < 0) return -1;
  pollfd ended{process, POLLIN, 0};
  const int in_time = poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(kLongestWait)));
  close(process);
  if (in_time != 1) Signal(SIGKILL);
  int status = 0;
  if (waitpid(pid_, &status, 0) != pid_) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int64_t ServerProcess::ResidentBytes() const {
  std::ifstream statm("/proc/" + std::to_string(pid_) + "/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

int64_t ServerProcess::Sleeps() const {
  int64_t sleeps = 0;
  std::error_code gone;  // a thread that has just ended
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/task", gone)) {
    std::ifstream status(thread.path() / "status");
    for (std::string field; status >> field;) {
      int64_t count = 0;
      if (field == "voluntary_ctxt_switches:" && status >> count) sleeps += count;
    }
  }
  return sleeps;
}

}  // namespace tessera::testing
