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

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/region/region_host.h"
#include "server/rpc/attend_environment.h"
#include "server/rpc/call_stream.h"
#include "server/rpc/region_call.h"
#include "server/rpc/region_tensors.h"
#include "server/rpc/stream_registry.h"
#include "tessera/v1/region.pb.h"

namespace tessera {

// Regions that are being opened hold the stream, too.
class RegionStream final : public CallStream {
 public:
  // All outlive the stream.
  static RegionStream* Start(const AttendEnvironment& environment, RegionHost* host, StreamRegistry* registry,
                             grpc::CallbackServerContext* context);

 private:
  struct Answer {
    v1::AttendInRegionsResponse message;
    std::shared_ptr<RegionCall> call;  // of an OK answer to a call
    absl::Time finished;               // likewise
  };

  RegionStream(const AttendEnvironment& environment, RegionHost* host, StreamRegistry* registry,
               grpc::CallbackServerContext* context);

  absl::Status HandleMessage(grpc::ByteBuffer* message) override;
  void MessageDone(bool sent) override;
  void EndOpenCalls(const absl::Status& status) override;
  void Broken(const absl::Status& status) override;
  bool HasAnswer() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !outbox_.empty(); }
  bool AnswersFull() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  grpc::ByteBuffer TakeMessage() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets the regions go.
  bool ReadyToEnd() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Open(uint64_t id, const v1::OpenRegion& request);
  void OnOpened(uint64_t id, uint64_t region, absl::StatusOr<RegionHost::Opened> opened);
  void Close(uint64_t id, const v1::CloseRegion& request);
  // The memory of a region has been let go of.
  void OnGone(uint64_t region);
  void Attend(uint64_t id, const v1::AttendRegions& request, int64_t message_bytes);
  absl::StatusOr<std::shared_ptr<RegionCall>> MakeCall(uint64_t id, const v1::AttendRegions& request,
                                                       int64_t message_bytes);
  void OnCallAnswered(uint64_t id, const std::shared_ptr<RegionCall>& call, const RegionCall::Ending& ending);

  // Answers a request that came to nothing with a status alone, and counts it.
  void Refuse(uint64_t id, const absl::Status& status);
  // `ended`: the call that it answers, open until then.
  void Push(Answer answer, std::optional<uint64_t> ended = std::nullopt);
  v1::AttendInRegionsResponse Response(uint64_t id, const absl::Status& status) const;

  std::shared_ptr<RegionStream> Self() { return std::static_pointer_cast<RegionStream>(shared_from_this()); }

  const AttendEnvironment& environment_;
  RegionHost* const host_;
  const bool local_;
  uint64_t last_region_ = 0;  // the handler's

  RegionTable regions_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, uint64_t> closing_ ABSL_GUARDED_BY(mutex_);  // region to the id of its CloseRegion
  int opening_ ABSL_GUARDED_BY(mutex_) = 0;
  int held_ ABSL_GUARDED_BY(mutex_) = 0;  // regions whose memory has not been let go of
  absl::flat_hash_map<uint64_t, std::shared_ptr<RegionCall>> calls_ ABSL_GUARDED_BY(mutex_);
  std::deque<Answer> outbox_ ABSL_GUARDED_BY(mutex_);
  std::optional<Answer> sending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_REGION_STREAM_H_
