// A tessera-server in a process of its own.
#ifndef TESSERA_TESTS_SERVER_SERVER_PROCESS_H_
#define TESSERA_TESTS_SERVER_SERVER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::testing {

// Killed by the destructor if it still runs, and by the system if this process dies.
class ServerProcess {
 public:
  // Starts `binary` with `flags` on free ports of 127.0.0.1 and waits until it serves or ends. `environment` entries
  // ("NAME=value") are added to this process's. `max_files` bounds its file descriptors; 0: as this process's.
  ServerProcess(const std::string& binary, const std::vector<std::string>& flags,
                const std::vector<std::string>& environment = {}, int max_files = 0);
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess();

  // False where the process ended, or said something else, before it served.
  bool serving() const { return grpc_port_ != 0; }
  std::string target() const { return "127.0.0.1:" + std::to_string(grpc_port_); }
  int grpc_port() const { return grpc_port_; }
  int metrics_port() const { return metrics_port_; }
  pid_t pid() const { return pid_; }

  // SIGSTOP: waits until the process has stopped.
  void Signal(int signal) const;
  // From now on.
  void SetMaxFiles(int max_files) const;
  // Waits for the end. The exit code, or 128 plus the signal that ended it: SIGKILL where kLongestWait was not enough.
  int Wait();
  // Bytes, from /proc.
  int64_t ResidentBytes() const;
  // How often its threads have gone to sleep, from /proc.
  int64_t Sleeps() const;

 private:
  pid_t pid_ = -1;
  int grpc_port_ = 0;
  int metrics_port_ = 0;
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_SERVER_PROCESS_H_
