// Load that must not fail, while something else happens.
#ifndef TESSERA_TESTS_SERVER_STEADY_CALLER_H_
#define TESSERA_TESTS_SERVER_STEADY_CALLER_H_

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "gtest/gtest.h"
#include "tests/server/await.h"

namespace tessera::testing {

// Calls without a pause until it is destroyed, and expects each call to return OK: grpc::Status or absl::Status.
template <typename Status>
class SteadyCaller {
 public:
  explicit SteadyCaller(std::function<Status()> call)
      : thread_([this, call = std::move(call)] {
          while (!stop_) {
            const Status status = call();
            EXPECT_TRUE(status.ok()) << Message(status);
            ++calls_;
          }
        }) {}
  ~SteadyCaller() {
    stop_ = true;
    thread_.join();
  }

  // Waits until one that has begun after this was called has returned.
  void AwaitCall() const {
    const int before = calls_;
    Await("calls", [&] { return calls_ > before + 1; });
  }

 private:
  static std::string Message(const Status& status) {
    if constexpr (requires { status.error_message(); }) {
      return status.error_message();
    } else {
      return status.ToString();
    }
  }

  std::atomic<bool> stop_ = false;
  std::atomic<int> calls_ = 0;
  std::thread thread_;
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_STEADY_CALLER_H_
