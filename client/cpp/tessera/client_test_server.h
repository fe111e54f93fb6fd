// For tests: clients of fake servers, and what those are told to do.
#ifndef TESSERA_CLIENT_CPP_TESSERA_CLIENT_TEST_SERVER_H_
#define TESSERA_CLIENT_CPP_TESSERA_CLIENT_TEST_SERVER_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/tessera/client.h"
#include "client/cpp/tessera/fake_server.h"
#include "gtest/gtest.h"

namespace tessera {

inline std::unique_ptr<Client> MakeClient(const FakeServer& server, const ClientOptions& options) {
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(server.target(), options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

inline ClientOptions QuickRetries() {
  ClientOptions options;
  options.retry.initial_backoff = absl::Milliseconds(1);
  options.retry.max_backoff = absl::Milliseconds(2);
  return options;
}

// Answers the calls from number `failures` + 1 on, and fails those before.
inline FakeServer::Judge FailFirst(int failures, grpc::StatusCode code, int retry_after_ms = 0) {
  return [=](const FakeServer::Call& call) {
    FakeServer::Decision decision;
    if (call.number <= failures) {
      decision.deed = FakeServer::Deed::kFail;
      decision.status = grpc::Status(code, "told to fail");
      decision.retry_after_ms = retry_after_ms;
    }
    return decision;
  };
}

inline FakeServer::Judge Always(FakeServer::Deed deed, grpc::Status status = grpc::Status::OK) {
  return [=](const FakeServer::Call&) {
    FakeServer::Decision decision;
    decision.deed = deed;
    decision.status = status;
    return decision;
  };
}

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_CLIENT_TEST_SERVER_H_
