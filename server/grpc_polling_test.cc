#include "server/grpc_polling.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "server/scheduler/awake_readers.h"

namespace tessera {
namespace {

constexpr int kForever = -1;

// How often this thread has gone to sleep.
int64_t Sleeps() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

// The same of another thread of this process.
int64_t SleepsOf(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  int64_t count = 0;
  for (std::string field; status >> field;) {
    if (field == "voluntary_ctxt_switches:") status >> count;
  }
  return count;
}

class GrpcPollingTest : public ::testing::Test {
 protected:
  GrpcPollingTest() {
    epoll_event readable{.events = EPOLLIN, .data = {.u64 = 7}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, event_, &readable);
  }
  ~GrpcPollingTest() override {
    KeepReadersAwake(absl::ZeroDuration());
    close(event_);
    close(epoll_);
  }

  int Wait(int timeout_ms) { return AwakeEpollWait(epoll_, got_, 4, timeout_ms); }
  void Write() const { eventfd_write(event_, 1); }
  // A thread that writes once this one sleeps, or a minute later.
  std::thread WriteOnceAsleep() const {
    return std::thread([this, waiter = gettid(), before = Sleeps()] {
      const absl::Time latest = absl::Now() + absl::Minutes(1);
      while (SleepsOf(waiter) == before && absl::Now() < latest) absl::SleepFor(absl::Milliseconds(1));
      Write();
    });
  }
  void ExpectOursAndTakeIt() const {
    EXPECT_EQ(got_[0].data.u64, 7);
    eventfd_t count;
    eventfd_read(event_, &count);
  }

  const int epoll_ = epoll_create1(0);
  const int event_ = eventfd(0, 0);
  epoll_event got_[4] = {};
};

// Not to stay awake at all, and no longer.
TEST_F(GrpcPollingTest, AsleepItReturnsWhatComes) {
  for (const absl::Duration awake : {absl::ZeroDuration(), absl::Milliseconds(5)}) {
    KeepReadersAwake(awake);
    const absl::Time begun = absl::Now();
    std::thread writer = WriteOnceAsleep();
    EXPECT_EQ(Wait(kForever), 1);
    writer.join();
    ExpectOursAndTakeIt();
    EXPECT_LT(absl::Now() - begun, absl::Minutes(1)) << "it did not sleep";
  }
}

TEST_F(GrpcPollingTest, AwakeItReturnsWhatComesWithoutSleep) {
  KeepReadersAwake(absl::Hours(1));
  int64_t least = 1;
  for (int trial = 0; trial < 3; ++trial) {  // a page that is not there yet is a sleep, too
    std::thread writer([this] {
      absl::SleepFor(absl::Milliseconds(20));
      Write();
    });
    const int64_t before = Sleeps();
    EXPECT_EQ(Wait(kForever), 1);
    least = std::min(least, Sleeps() - before);
    writer.join();
    ExpectOursAndTakeIt();
  }
  EXPECT_EQ(least, 0);
}

// Also of a wait of which only the first part is awake.
TEST_F(GrpcPollingTest, TimeoutsHoldAwakeAndAsleep) {
  for (const absl::Duration awake : {absl::ZeroDuration(), absl::Milliseconds(150), absl::Hours(1)}) {
    absl::Duration least = absl::InfiniteDuration();
    for (int trial = 0; trial < 3; ++trial) {  // other processes take their time
      KeepReadersAwake(awake);
      const absl::Time begun = absl::Now();
      EXPECT_EQ(Wait(0), 0);
      EXPECT_EQ(Wait(200), 0);
      least = std::min(least, absl::Now() - begun);
    }
    EXPECT_GE(least, absl::Milliseconds(199)) << awake;
    EXPECT_LT(least, absl::Milliseconds(330)) << awake;
  }
}

TEST_F(GrpcPollingTest, ErrorsAreThoseOfTheCLibrary) {
  for (const absl::Duration awake : {absl::ZeroDuration(), absl::Hours(1)}) {
    KeepReadersAwake(awake);
    errno = 0;
    EXPECT_EQ(AwakeEpollWait(-1, got_, 4, kForever), -1);
    EXPECT_EQ(errno, EBADF);
  }
}

TEST_F(GrpcPollingTest, TheProgramsEpollWaitDoesWhatTheNameSays) {
  for (const absl::Duration awake : {absl::ZeroDuration(), absl::Hours(1)}) {
    KeepReadersAwake(awake);
    EXPECT_EQ(epoll_wait(epoll_, got_, 4, 10), 0);
    errno = 0;
    EXPECT_EQ(epoll_wait(-1, got_, 4, 10), -1);
    EXPECT_EQ(errno, EBADF);
  }
  Write();
  EXPECT_EQ(epoll_wait(epoll_, got_, 4, kForever), 1);
  ExpectOursAndTakeIt();
}

#ifdef TESSERA_OWN_EPOLL_WAIT
// What gRPC's libraries are given for a name is what the dynamic linker finds first.
TEST(EpollWaitTest, TheProgramsComesFirst) {
  ASSERT_NE(grpc::Version(), "");  // gRPC is linked
  static const char of_the_program = 0;
  Dl_info asked;
  Dl_info program;
  ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, "epoll_wait"), &asked), 0);
  ASSERT_NE(dladdr(&of_the_program, &program), 0);
  EXPECT_EQ(asked.dli_fbase, program.dli_fbase) << "epoll_wait is " << asked.dli_fname << "'s";
}
#endif

}  // namespace
}  // namespace tessera
