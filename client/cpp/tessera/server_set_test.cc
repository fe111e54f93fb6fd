// The choice among servers, without a server: nothing connects before a call is made.
#include "client/cpp/tessera/server_set.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cpp/tessera/address_watch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<Endpoint> Endpoints(const std::vector<std::string>& targets) {
  std::vector<Endpoint> endpoints;
  for (const std::string& target : targets) endpoints.push_back({target, ""});
  return endpoints;
}

class ServerSetTest : public ::testing::Test {
 protected:
  ServerSetTest() { servers_.Update(Endpoints({"a:1", "b:1", "c:1"})); }

  // A call that ends with `status` at once. Returns where it went.
  ServerSet::Server* Call(const absl::Status& status, const ServerSet::Server* except = nullptr) {
    ServerSet::Server* server = servers_.Pick(except);
    servers_.Return(server, status);
    return server;
  }

  const absl::Status gone_ = absl::UnavailableError("gone");
  TimerQueue timers_;
  int failures_ = 0;
  absl::Time now_ = absl::UnixEpoch();
  ServerSet servers_{ClientOptions(), true, &timers_, [this] { ++failures_; }, [this] { return now_; }};
};

TEST_F(ServerSetTest, IdleServersTakeTurns) {
  std::map<ServerSet::Server*, int> calls;
  for (int i = 0; i < 300; ++i) ++calls[Call(absl::OkStatus())];
  ASSERT_EQ(calls.size(), 3u);
  for (const auto& [server, count] : calls) EXPECT_EQ(count, 100);
}

TEST_F(ServerSetTest, FewestBytesOutstandingComeFirst) {
  ServerSet::Server* busy = servers_.Pick();
  const std::vector<Connection*> connections = ServerSet::PoolOf(busy)->Take(2, 1000);
  EXPECT_EQ(ServerSet::PoolOf(busy)->outstanding_bytes(), 1000);
  for (int i = 0; i < 10; ++i) EXPECT_NE(Call(absl::OkStatus()), busy);
  ConnectionPool::Return(connections, 1000);
  servers_.Return(busy, absl::OkStatus());
}

TEST_F(ServerSetTest, CallsWithoutBytesAreSpreadByTheirNumber) {
  std::map<ServerSet::Server*, int> open;
  for (int i = 0; i < 9; ++i) ++open[servers_.Pick()];
  for (const auto& [server, count] : open) {
    EXPECT_EQ(count, 3);
    for (int i = 0; i < count; ++i) servers_.Return(server, absl::OkStatus());
  }
}

TEST_F(ServerSetTest, AServerThatIsGoneIsAvoidedAndThenTriedByOneCall) {
  ServerSet::Server* gone = Call(gone_);
  EXPECT_EQ(failures_, 1);
  EXPECT_TRUE(servers_.HasAnother(gone));
  for (int i = 0; i < 10; ++i) EXPECT_NE(Call(absl::OkStatus()), gone);
  now_ += ServerSet::kFirstAvoidance;
  // Three calls at once: each server gets one, and no further one goes to the server on trial.
  std::vector<ServerSet::Server*> open;
  for (int i = 0; i < 6; ++i) open.push_back(servers_.Pick());
  EXPECT_EQ(std::count(open.begin(), open.end(), gone), 1);
  for (ServerSet::Server* server : open) servers_.Return(server, absl::OkStatus());
  // The trial has been answered.
  std::map<ServerSet::Server*, int> calls;
  for (int i = 0; i < 30; ++i) ++calls[Call(absl::OkStatus())];
  EXPECT_EQ(calls[gone], 10);
}

TEST_F(ServerSetTest, EachTrialThatFailsDoublesTheTimeToTheNext) {
  ServerSet::Server* gone = Call(gone_);
  const auto trials = [&] {
    int count = 0;
    for (int i = 0; i < 9; ++i) {
      ServerSet::Server* server = servers_.Pick();
      count += server == gone;
      servers_.Return(server, server == gone ? gone_ : absl::OkStatus());
    }
    return count;
  };
  absl::Duration avoided = ServerSet::kFirstAvoidance;
  for (int trial = 0; trial < 10; ++trial) {
    now_ += avoided - absl::Nanoseconds(1);
    EXPECT_EQ(trials(), 0) << avoided;
    now_ += absl::Nanoseconds(1);
    EXPECT_EQ(trials(), 1) << avoided;
    avoided = std::min(2 * avoided, ServerSet::kLongestAvoidance);
  }
}

TEST_F(ServerSetTest, CallsThatFailTogetherAreOneFailure) {
  std::vector<ServerSet::Server*> open;
  for (int i = 0; i < 30; ++i) open.push_back(servers_.Pick());
  for (ServerSet::Server* server : open) {
    if (server == open.front()) servers_.Return(server, gone_);
  }
  EXPECT_EQ(failures_, 1);
  for (ServerSet::Server* server : open) {
    if (server != open.front()) servers_.Return(server, absl::OkStatus());
  }
  now_ += ServerSet::kFirstAvoidance;  // as long as after one failure
  std::map<ServerSet::Server*, int> calls;
  for (int i = 0; i < 30; ++i) ++calls[Call(absl::OkStatus())];
  EXPECT_EQ(calls[open.front()], 10);
}

TEST_F(ServerSetTest, WhatSaysNothingOfTheServerChangesNothing) {
  for (const absl::Status& status : {absl::CancelledError(""), absl::DeadlineExceededError(""),
                                     absl::ResourceExhaustedError(""), absl::InvalidArgumentError("")}) {
    std::map<ServerSet::Server*, int> calls;
    for (int i = 0; i < 30; ++i) ++calls[Call(status)];
    for (const auto& [server, count] : calls) EXPECT_EQ(count, 10) << status;
  }
  EXPECT_EQ(failures_, 0);
}

TEST_F(ServerSetTest, AnotherServerWhereThereIsOne) {
  ServerSet::Server* first = Call(absl::OkStatus());
  for (int i = 0; i < 10; ++i) EXPECT_NE(Call(absl::OkStatus(), first), first);
  servers_.Update(Endpoints({"a:1"}));
  ServerSet::Server* only = Call(absl::OkStatus());
  EXPECT_EQ(Call(absl::OkStatus(), only), only);
  EXPECT_FALSE(servers_.HasAnother(only));
}

TEST_F(ServerSetTest, AllGoneIsStillTried) {
  for (int i = 0; i < 3; ++i) Call(gone_);
  EXPECT_EQ(failures_, 3);
  ServerSet::Server* server = Call(absl::OkStatus());
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(Call(absl::OkStatus()), server) << "it has answered, the others have not";
}

TEST_F(ServerSetTest, ServersComeAndGo) {
  ServerSet::Server* leaving = servers_.Pick();
  servers_.Update(Endpoints({"d:1", "d:1"}));
  ServerSet::Server* only = Call(absl::OkStatus());
  EXPECT_EQ(Call(absl::OkStatus()), only) << "named twice, it is one server";
  EXPECT_NE(only, leaving);
  servers_.Return(leaving, absl::OkStatus());  // it was there until its call ended
  servers_.Update({});
  EXPECT_EQ(servers_.Pick(), nullptr);
}

TEST(LookUpAddressesTest, FindsTheAddressesOfOneFamily) {
  const absl::StatusOr<std::vector<Endpoint>> endpoints = LookUpAddresses("localhost:7171");
  ASSERT_TRUE(endpoints.ok()) << endpoints.status();
  ASSERT_THAT(*endpoints, Not(IsEmpty()));
  EXPECT_THAT(*endpoints, Each(Field(&Endpoint::authority, "localhost:7171")));
  EXPECT_EQ(LookUpAddresses("127.0.0.1:80")->front(), (Endpoint{"ipv4:127.0.0.1:80", "127.0.0.1:80"}));
  EXPECT_EQ(LookUpAddresses("localhost").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(LookUpAddresses("no-such-host.invalid:1").status().code(), absl::StatusCode::kUnavailable);
}

TEST(AddressWatchTest, LooksAtOnceAndAgainWhenAsked) {
  TimerQueue timers;
  ServerSet servers(ClientOptions(), true, &timers, nullptr);
  absl::Mutex mutex;
  int looks = 0;
  AddressWatch watch(
      [&]() -> absl::StatusOr<std::vector<Endpoint>> {
        absl::MutexLock lock(&mutex);
        if (++looks == 2) return absl::UnavailableError("no answer");
        return Endpoints({"a:1"});
      },
      &servers);
  watch.AwaitFirst(absl::InfiniteDuration());
  ServerSet::Server* server = servers.Pick();
  ASSERT_NE(server, nullptr);
  servers.Return(server, absl::OkStatus());
  watch.Refresh();
  absl::MutexLock lock(&mutex);
  const auto twice = [&] { return looks >= 2; };
  ASSERT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&twice), absl::Seconds(30)));
  EXPECT_EQ(servers.Pick(), server) << "a name that cannot be looked up leaves the servers as they were";
  servers.Return(server, absl::OkStatus());
}

}  // namespace
}  // namespace tessera
