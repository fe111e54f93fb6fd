// A caller of SequenceService that knows every row it has sent, and what the answers must be.
#ifndef TESSERA_TESTS_SERVER_SEQUENCE_CLIENT_H_
#define TESSERA_TESTS_SERVER_SEQUENCE_CLIENT_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "server/request/cache_profile.h"
#include "tessera/v1/sequence.grpc.pb.h"

namespace tessera::testing {

// A sequence and its rows, [layers] times [tokens, kv_heads, head_dim].
struct KnownSequence {
  std::string handle;
  std::vector<std::vector<float>> k;
  std::vector<std::vector<float>> v;
};

// What one entry of a call does.
struct KnownEntry {
  KnownSequence* sequence;
  uint32_t layer = 0;
  uint32_t q_tokens = 1;
  uint32_t append_tokens = 1;
};

// An Extend call under way.
class ExtendCall {
 public:
  ExtendCall(v1::SequenceService::Stub& stub, v1::ExtendRequest request, const std::string& tenant = "");
  ExtendCall(const ExtendCall&) = delete;
  ExtendCall& operator=(const ExtendCall&) = delete;
  // Cancels and waits.
  ~ExtendCall();

  void Cancel() { context_.TryCancel(); }
  const grpc::Status& Await();
  bool done() const { return done_.HasBeenNotified(); }
  const v1::ExtendRequest& request() const { return request_; }
  const v1::ExtendResponse& response() const { return response_; }
  // Of the trailing metadata; empty where it is missing. REQUIRES: Await.
  std::string RetryPushback() const;

 private:
  const v1::ExtendRequest request_;
  v1::ExtendResponse response_;
  grpc::ClientContext context_;
  grpc::Status status_;
  absl::Notification done_;
};

// One tenant's. REQUIRES: a float32 profile. One thread at a time.
class SequenceClient {
 public:
  SequenceClient(const std::shared_ptr<grpc::Channel>& channel, const CacheProfile& profile, std::string tenant,
                 uint64_t seed);

  v1::SequenceService::Stub& stub() { return *stub_; }

  // REQUIRES: the server gives one.
  KnownSequence Create();
  grpc::Status Create(uint32_t count, v1::CreateSequencesResponse* response);
  // `fork` begins with all of `source`, or its first `length` tokens.
  grpc::Status Fork(const KnownSequence& source, KnownSequence* fork, int64_t length = -1);
  grpc::Status Truncate(KnownSequence& sequence, uint64_t length);
  // How many were there.
  uint32_t Release(const std::vector<std::string>& handles);
  grpc::Status Get(const std::string& handle, v1::GetSequenceResponse* response);

  // A call of random rows, q_heads = 2 * kv_heads, LSE wanted.
  v1::ExtendRequest Request(const std::vector<KnownEntry>& entries);
  // Adds the rows of a call that was done to what is known.
  void Note(const std::vector<KnownEntry>& entries, const v1::ExtendRequest& request);
  // The largest difference of o and LSE to the definition in double over all rows known now; infinite where sizes or
  // lengths are wrong.
  double Error(const std::vector<KnownEntry>& entries, const v1::ExtendRequest& request,
               const v1::ExtendResponse& response) const;
  // Sends a call, notes it and returns its error; infinite, and says why, where it fails.
  double Extend(const std::vector<KnownEntry>& entries, v1::ExtendResponse* response = nullptr);

 private:
  void Prepare(grpc::ClientContext& context) const;

  const CacheProfile profile_;
  const std::string tenant_;
  std::mt19937_64 rng_;
  std::unique_ptr<v1::SequenceService::Stub> stub_;
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_SEQUENCE_CLIENT_H_
