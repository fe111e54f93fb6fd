// One caller of the soak test: makes calls of every kind, good and bad, one after the other.
#ifndef TESSERA_TESTS_SERVER_SOAK_CALLER_H_
#define TESSERA_TESTS_SERVER_SOAK_CALLER_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "grpcpp/channel.h"
#include "tessera/v1/attention.grpc.pb.h"

namespace tessera::testing {

// Not thread-safe; every caller is one thread's.
class Caller {
 public:
  static constexpr char kRefused[] = "refused for now";
  // What the calls came to.
  static constexpr std::array<const char*, 8> kOutcomes = {"unary",   "streamed",  "cancelled",  "expired",
                                                           "invalid", "malformed", "broken off", kRefused};

  Caller(std::shared_ptr<grpc::Channel> channel, uint64_t seed);

  // Makes the next call, or a stream of some. Returns how many; 0, having said why on standard error, where an answer
  // is not one that the call may have.
  int64_t Step();

  int64_t Count(const std::string& outcome) const;

 private:
  // A valid request of random type, shape and mask.
  v1::AttendRequest RandomRequest();
  // Counts the outcome where `code` is an answer that such a call may have.
  int64_t Expect(const char* outcome, grpc::StatusCode code, std::initializer_list<grpc::StatusCode> allowed);

  int64_t Unary();
  int64_t Cancelled();
  int64_t Expired();
  int64_t Invalid();
  int64_t Malformed();
  int64_t Stream();
  int64_t BrokenStream();

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::AttentionService::Stub> stub_;
  std::mt19937_64 rng_;
  std::map<std::string, int64_t> counts_;
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_SOAK_CALLER_H_
