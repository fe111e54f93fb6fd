// Sends the workload's calls to a Tessera server through the client library.
#ifndef TESSERA_CLIENT_CPP_LOAD_TESSERA_TARGET_H_
#define TESSERA_CLIENT_CPP_LOAD_TESSERA_TARGET_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cpp/load/answer_buffers.h"
#include "client/cpp/load/call_shape.h"
#include "client/cpp/load/payload_pool.h"
#include "client/cpp/load/target.h"
#include "client/cpp/tessera/client.h"

namespace tessera::load {

struct TesseraOptions {
  std::string address;                                    // of one server, or of several between commas
  bool every_address = false;                             // each that the name has is a server
  std::shared_ptr<grpc::ChannelCredentials> credentials;  // null: plain text
  std::string server_name;                                // as ClientOptions::server_name
  int connections = 4;                                    // to each server, of each tenant
  Transport transport = Transport::kAuto;
  // Calls of a shape without a tenant of its own go to these in turn. Empty: no tenant.
  std::vector<std::string> tenants;
  v1::Priority priority = v1::PRIORITY_UNSPECIFIED;  // of shapes that name none
  absl::Duration timeout = absl::Seconds(30);        // as above
  int attempts = 1;                                  // over 1, the client library retries, and latency includes it
};

// Without a tenant.
ClientOptions ToClientOptions(const TesseraOptions& options);

// Thread-safe.
class TesseraTarget : public Target {
 public:
  // What it points to must outlive it.
  static absl::StatusOr<std::unique_ptr<TesseraTarget>> Connect(const TesseraOptions& options,
                                                                absl::Span<const CallShape> shapes,
                                                                const PayloadPool* payloads);

  // Waits for calls in flight.
  ~TesseraTarget() override;

  // DATA_LOSS where an OK answer has other sizes than asked for.
  void Issue(const Call& call, AnswerCallback done) override;

  // Version, backend and devices, for people.
  absl::StatusOr<std::string> DescribeServer();

 private:
  // What does not change from call to call.
  struct Prepared {
    v1::AttendHeader header;
    absl::Duration timeout;
    std::vector<Client*> clients;  // taken in turn
  };

  TesseraTarget(absl::Span<const CallShape> shapes, const PayloadPool* payloads);

  const PayloadPool* const payloads_;
  AnswerBuffers buffers_;
  std::vector<std::unique_ptr<Client>> clients_;  // one for each tenant
  std::vector<Prepared> prepared_;                // one for each shape
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_TESSERA_TARGET_H_
