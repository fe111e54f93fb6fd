// What the RPC layer tells whoever keeps the books.
#ifndef TESSERA_SERVER_RPC_RPC_OBSERVER_H_
#define TESSERA_SERVER_RPC_RPC_OBSERVER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/metrics/labels.h"

namespace tessera {

// Called on any thread; must be thread-safe and quick.
class RpcObserver {
 public:
  virtual ~RpcObserver() = default;

  virtual void OnRpcStarted(RpcMethod method) = 0;
  virtual void OnRpcHandled(RpcMethod method, absl::StatusCode code, absl::Duration time) = 0;

  // Time that one call spent in a stage: kReceive, kQueue or kSend.
  virtual void OnStage(Stage stage, absl::Duration time) = 0;
  // Tensor bytes copied from gRPC's memory into staging memory.
  virtual void OnPayloadCopied(int64_t bytes) = 0;
  // Tensor bytes of an answered call that were read and written where its caller has them.
  virtual void OnRegionPayload(RegionMemory memory, int64_t read, int64_t written) = 0;

  // How calls end that are not answered with a result; one of these for each.
  // OnRejected also tells of connections that are refused.
  virtual void OnRejected(RejectReason reason) = 0;
  virtual void OnExpired(Station where) = 0;
  virtual void OnCancelled(Station where) = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_RPC_OBSERVER_H_
