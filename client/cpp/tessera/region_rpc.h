// The AttendInRegions RPC of one RegionSession.
#ifndef TESSERA_CLIENT_CPP_TESSERA_REGION_RPC_H_
#define TESSERA_CLIENT_CPP_TESSERA_REGION_RPC_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cpp/tessera/timer_queue.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "tessera/v1/region.grpc.pb.h"

namespace tessera {

// Requests and their answers, by id, and which memory is which region. Thread-safe. Keeps itself alive until the RPC is
// over; whoever has opened it holds it until Close has returned, so that it is not destroyed by a thread of gRPC's, and
// the channel with it.
class RegionRpc final : public grpc::ClientBidiReactor<v1::AttendInRegionsRequest, v1::AttendInRegionsResponse> {
 public:
  // The answer, or how the stream ended before it, or DEADLINE_EXCEEDED where it has not come in time.
  using AnswerFn = std::function<void(absl::StatusOr<v1::AttendInRegionsResponse>)>;

  // `patience`: how long the answer to Ask may take.
  static std::shared_ptr<RegionRpc> Open(const std::shared_ptr<grpc::Channel>& channel, const std::string& tenant,
                                         absl::Duration patience);

  // For a request.
  uint64_t NewId() { return ++last_id_; }
  // Sends `request` under an id that is used once. `answer` runs once, with no lock held, possibly before this returns;
  // at the latest after `patience`. A region that is opened later than that is closed.
  void Send(uint64_t id, v1::AttendInRegionsRequest request, absl::Duration patience, AnswerFn answer)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, under a new id, and waits. A status in the answer that is not OK becomes the result.
  absl::StatusOr<v1::AttendInRegionsResponse> Ask(v1::AttendInRegionsRequest request) ABSL_LOCKS_EXCLUDED(mutex_);
  // Asks for the region's end and does not wait.
  void SendClose(uint64_t region) ABSL_LOCKS_EXCLUDED(mutex_);
  // Withdraws the call `id`.
  void CancelCall(uint64_t id) ABSL_LOCKS_EXCLUDED(mutex_);

  // From here on, spans in `memory` are in the region.
  void Add(uint64_t region, absl::Span<std::byte> memory) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(absl::Span<std::byte> memory) ABSL_LOCKS_EXCLUDED(mutex_);
  // Where `span` is; an empty one is nowhere. INVALID_ARGUMENT, naming `field`, where that is in no region.
  absl::StatusOr<v1::RegionTensor> Locate(const char* field, absl::Span<const std::byte> span)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Half-closes, gives the server `patience` to end the stream, and waits for the end and for every AnswerFn. Called
  // once, not from one.
  void Close(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiting {
    AnswerFn answer;  // null once it has run
    std::optional<TimerQueue::Timer> timer;
  };

  explicit RegionRpc(absl::Duration patience) : patience_(patience) {}

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnWritesDoneDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  // Starts the next write, if there is anything to write and none under way.
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The answer to `id` has taken too long.
  void Expire(uint64_t id) ABSL_LOCKS_EXCLUDED(mutex_);
  // No operation is to be started any more: lets gRPC finish, once the writer is idle.
  void StopOperations() ABSL_LOCKS_EXCLUDED(mutex_);

  struct Memory {
    size_t bytes;
    uint64_t region;
  };

  const absl::Duration patience_;
  const std::shared_ptr<absl::Notification> ended_ = std::make_shared<absl::Notification>();
  grpc::ClientContext context_;
  v1::AttendInRegionsResponse incoming_;  // gRPC's while a read is under way

  absl::Mutex mutex_;
  v1::AttendInRegionsRequest outgoing_ ABSL_GUARDED_BY(mutex_);  // gRPC's while writing_
  std::deque<v1::AttendInRegionsRequest> outbox_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<TimerQueue> timers_ ABSL_GUARDED_BY(mutex_) = std::make_unique<TimerQueue>();  // null once closed
  std::map<const std::byte*, Memory> memories_ ABSL_GUARDED_BY(mutex_);                          // by their starts
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;       // reads have ended
  bool hold_removed_ ABSL_GUARDED_BY(mutex_) = false;  // gRPC may call OnDone
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);          // not OK: how the RPC has ended
  std::atomic<uint64_t> last_id_ = 0;
  std::shared_ptr<RegionRpc> self_;  // until OnDone
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_REGION_RPC_H_
