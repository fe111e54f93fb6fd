// The client of a Tessera server: start here.
//
//   auto client = tessera::Client::Connect("localhost:7171", {});
//   tessera::AttendCall call;                      // header, q, k, v, o: attend_call.h
//   absl::StatusOr<tessera::AttendReply> reply = (*client)->Attend(call);
//
// Thread-safe. A client owns a few connections, one long-lived stream on each, and one thread for its timers; calls
// cost no thread of their own.
#ifndef TESSERA_CLIENT_CPP_TESSERA_CLIENT_H_
#define TESSERA_CLIENT_CPP_TESSERA_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cpp/tessera/attend_call.h"
#include "client/cpp/tessera/options.h"
#include "tessera/v1/server.pb.h"

namespace tessera {

class Client {
 public:
  // A client of the server at `target`, a gRPC name such as "host:port" or "unix:path", or of several, "host1:port,
  // host2:port" without the space: each call goes to the one with the fewest bytes outstanding, and is tried again at
  // another where one is gone. Does not wait for connections: a server that is not there shows as UNAVAILABLE from the
  // calls. INVALID_ARGUMENT for options, or a port, out of range.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& target, const ClientOptions& options);

  // Withdraws the calls in flight and waits until their callbacks have run. REQUIRES: not called from a callback.
  ~Client();

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Waits for the answer.
  absl::StatusOr<AttendReply> Attend(const AttendCall& call);

  // Returns at once. `callback` runs exactly once, on a thread of gRPC's or of the client's, possibly before this
  // returns; it must not block. It runs only when nobody reads or writes the call's tensors any more: where the
  // deadline passes or the call is cancelled while gRPC is still sending them, that can take until the network has let
  // go.
  CallHandle AttendAsync(const AttendCall& call, AttendCallback callback);

  // These wait for the answer, at most `timeout`. Of several servers, one answers.
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(absl::Duration timeout = absl::Seconds(10));
  absl::StatusOr<v1::PlanTilesResponse> PlanTiles(const v1::PlanTilesRequest& request,
                                                  absl::Duration timeout = absl::Seconds(10));
  // grpc.health.v1.Health/Check of `service`, or of the whole server where that is empty: OK where it is SERVING,
  // UNAVAILABLE where it is not, NOT_FOUND where the server does not know the service.
  absl::Status CheckHealth(absl::string_view service = "", absl::Duration timeout = absl::Seconds(10));

 private:
  class Impl;

  explicit Client(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_CLIENT_H_
