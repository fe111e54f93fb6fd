// The AttendInRegions RPC of one RegionSession.
#ifndef TESSERA_CLIENT_CPP_TESSERA_REGION_RPC_H_
#define TESSERA_CLIENT_CPP_TESSERA_REGION_RPC_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
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
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cpp/tessera/queued_stream.h"
#include "client/cpp/tessera/timer_queue.h"
#include "grpcpp/channel.h"
#include "tessera/v1/region.grpc.pb.h"

namespace tessera {

// Requests and their answers, by id, and which memory is which region. Thread-safe. Held by whoever has opened it until
// End has returned.
class RegionRpc final : public QueuedStream<v1::AttendInRegionsRequest, v1::AttendInRegionsResponse> {
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
  void End(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiting {
    AnswerFn answer;  // null once it has run
    std::optional<TimerQueue::Timer> timer;
  };

  RegionRpc(const std::string& tenant, absl::Duration patience) : QueuedStream(tenant), patience_(patience) {}

  bool OnMessage(v1::AttendInRegionsResponse* message) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnEnd(const grpc::Status& status) override ABSL_LOCKS_EXCLUDED(mutex_);

  // The answer to `id` has taken too long.
  void Expire(uint64_t id) ABSL_LOCKS_EXCLUDED(mutex_);

  struct Memory {
    size_t bytes;
    uint64_t region;
  };

  const absl::Duration patience_;
  std::atomic<uint64_t> last_id_ = 0;

  absl::Mutex mutex_;  // taken before the stream's own
  absl::flat_hash_map<uint64_t, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<TimerQueue> timers_ ABSL_GUARDED_BY(mutex_) = std::make_unique<TimerQueue>();  // null once ended
  std::map<const std::byte*, Memory> memories_ ABSL_GUARDED_BY(mutex_);                          // by their starts
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);  // not OK: how the RPC has ended
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_REGION_RPC_H_
