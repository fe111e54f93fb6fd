// Gives every call its bearer token.
#ifndef TESSERA_CLIENT_CPP_TESSERA_TOKEN_SOURCE_H_
#define TESSERA_CLIENT_CPP_TESSERA_TOKEN_SOURCE_H_

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/security/credentials.h"

namespace tessera {

// Thread-safe.
class TokenSource final : public grpc::MetadataCredentialsPlugin {
 public:
  // INVALID_ARGUMENT where the token is empty or has other characters than metadata can carry; the token is not quoted.
  static absl::StatusOr<std::unique_ptr<TokenSource>> Fixed(absl::string_view token);
  // The file's token, which it is read for again every kPeriod; while it holds none, the last one goes on.
  static absl::StatusOr<std::unique_ptr<TokenSource>> OfFile(const std::string& path);

  // Reading a file of one line takes some microseconds, once in a while.
  bool IsBlocking() const override { return false; }
  const char* GetType() const override { return "tessera-token"; }
  grpc::Status GetMetadata(grpc::string_ref service_url, grpc::string_ref method, const grpc::AuthContext& context,
                           std::multimap<std::string, std::string>* metadata) override;
  // Without the token.
  std::string DebugString() override { return "TokenSource"; }

 private:
  static constexpr absl::Duration kPeriod = absl::Seconds(1);

  TokenSource(std::string path, std::string header);

  std::string Header();

  const std::string path_;  // empty: the token is fixed
  absl::Mutex mutex_;
  std::string header_ ABSL_GUARDED_BY(mutex_);  // "Bearer TOKEN"
  absl::Time next_look_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_TOKEN_SOURCE_H_
