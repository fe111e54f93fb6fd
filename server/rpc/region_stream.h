// One AttendInRegions: regions, and calls in them, over a pair of message flows.
//
// The regions are the stream's own. No table of the server's has them, so that no other stream can name one, and what
// ends the stream ends them.
#ifndef TESSERA_SERVER_RPC_REGION_STREAM_H_
#define TESSERA_SERVER_RPC_REGION_STREAM_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/region/region_host.h"
#include "server/rpc/attend_environment.h"
#include "server/rpc/region_call.h"
#include "server/rpc/region_tensors.h"
#include "server/rpc/send_watch.h"
#include "server/rpc/stream_registry.h"
#include "server/rpc/stream_tenant.h"
#include "tessera/v1/region.pb.h"

namespace tessera {

// Holds itself from Start to OnDone; calls and regions that are being opened hold it, too, and drop their answers into
// it until then. Messages are handled one after the other as they come; while the client leaves too many answers
// unread, its messages stay in the transport.
class RegionStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                           public OpenStream,
                           public std::enable_shared_from_this<RegionStream> {
 public:
  // All outlive the stream.
  static RegionStream* Start(const AttendEnvironment& environment, RegionHost* host, StreamRegistry* registry,
                             grpc::CallbackServerContext* context);

  // Ends the stream with UNAVAILABLE as soon as everything that it was asked for has been answered.
  void CloseWhenIdle() override;
  void EndCalls(const absl::Status& status) override;

 private:
  struct Answer {
    v1::AttendInRegionsResponse message;
    std::shared_ptr<RegionCall> call;  // of an OK answer to a call
    absl::Time finished;               // likewise
  };

  RegionStream(const AttendEnvironment& environment, RegionHost* host, StreamRegistry* registry,
               grpc::CallbackServerContext* context);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Fails only for a malformed message.
  absl::Status HandleMessage();
  void Open(uint64_t id, const v1::OpenRegion& request);
  void OnOpened(uint64_t id, uint64_t region, absl::StatusOr<RegionHost::Opened> opened);
  void Close(uint64_t id, const v1::CloseRegion& request);
  // The memory of a region has been let go of.
  void OnGone(uint64_t region);
  void Attend(uint64_t id, const v1::AttendRegions& request, int64_t message_bytes);
  absl::StatusOr<std::shared_ptr<RegionCall>> MakeCall(uint64_t id, const v1::AttendRegions& request,
                                                       int64_t message_bytes);
  void OnCallAnswered(uint64_t id, const std::shared_ptr<RegionCall>& call, const RegionCall::Ending& ending);

  // Answers with a status alone.
  void PushStatus(uint64_t id, const absl::Status& status);
  // As above, for a request that came to nothing, and counts it.
  void Refuse(uint64_t id, const absl::Status& status);
  void Push(Answer answer);
  v1::AttendInRegionsResponse Response(uint64_t id, const absl::Status& status) const;

  // Ends every call and the stream.
  void Break(const absl::Status& calls_end, const absl::Status& stream_end);
  std::vector<std::shared_ptr<RegionCall>> OpenCalls();

  void ReadNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts whatever may be started: the next write, the next read, the end.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishWith(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AttendEnvironment& environment_;
  RegionHost* const host_;
  StreamRegistry* const registry_;
  grpc::CallbackServerContext* const context_;
  const bool local_;
  const absl::Time started_;
  const std::shared_ptr<SendWatch> send_watch_;
  StreamTenant tenant_;                 // the handler's
  std::shared_ptr<RegionStream> self_;  // until OnDone
  grpc::ByteBuffer incoming_;           // gRPC's while a read is under way, else the handler's
  uint64_t last_region_ = 0;            // the handler's

  absl::Mutex mutex_;
  RegionTable regions_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, uint64_t> closing_ ABSL_GUARDED_BY(mutex_);  // region to the id of its CloseRegion
  int opening_ ABSL_GUARDED_BY(mutex_) = 0;
  int held_ ABSL_GUARDED_BY(mutex_) = 0;  // regions whose memory has not been let go of
  absl::flat_hash_map<uint64_t, std::shared_ptr<RegionCall>> calls_ ABSL_GUARDED_BY(mutex_);
  std::deque<Answer> outbox_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer outgoing_ ABSL_GUARDED_BY(mutex_);        // gRPC's while writing_
  std::optional<Answer> answering_ ABSL_GUARDED_BY(mutex_);  // what is in outgoing_
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool write_failed_ ABSL_GUARDED_BY(mutex_) = false;  // nothing can be sent any more; OnCancel follows
  bool reading_paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;  // the client sends no more
  bool closing_when_idle_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status calls_end_ ABSL_GUARDED_BY(mutex_);  // not OK: EndCalls
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);     // not OK: Break, and how the stream ends
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;   // Finish has been called: gRPC takes nothing more
  absl::StatusCode code_ ABSL_GUARDED_BY(mutex_) = absl::StatusCode::kOk;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_REGION_STREAM_H_
