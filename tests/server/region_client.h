// The client's end of an AttendInRegions, in generated protobuf classes.
#ifndef TESSERA_TESTS_SERVER_REGION_CLIENT_H_
#define TESSERA_TESTS_SERVER_REGION_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"
#include "tessera/v1/region.grpc.pb.h"

namespace tessera::testing {

// A region of shared memory, mapped here too.
class MappedRegion {
 public:
  // REQUIRES: the path can be opened.
  explicit MappedRegion(const v1::RegionOpened& opened);
  MappedRegion(const MappedRegion&) = delete;
  MappedRegion& operator=(const MappedRegion&) = delete;
  ~MappedRegion();

  uint64_t id() const { return id_; }
  int fd() const { return fd_; }
  std::byte* data() const { return data_; }
  void Write(size_t offset, const std::string& bytes) const;
  std::string Read(size_t offset, size_t bytes) const;

 private:
  const uint64_t id_;
  const size_t size_;
  const int fd_;
  std::byte* const data_;
};

// q, k, v, o and LSE, one after the other from `offset` on, each at a multiple of 256.
v1::AttendRegions RegionCallAt(uint64_t region, const v1::AttendRequest& request, uint64_t offset = 0);
// What RegionCallAt takes.
uint64_t RegionBytes(const v1::AttendRequest& request);
// The tensors of `request` to where `call` says. REQUIRES: all in this region.
void WriteInputs(const MappedRegion& region, const v1::AttendRegions& call, const v1::AttendRequest& request);

// One thread at a time.
class RegionClient {
 public:
  using Code = grpc::StatusCode;

  explicit RegionClient(const std::shared_ptr<grpc::Channel>& channel, const std::string& tenant = "");
  RegionClient(const RegionClient&) = delete;
  RegionClient& operator=(const RegionClient&) = delete;
  // Cancels.
  ~RegionClient();

  // Ids are given out in turn, from 1.
  uint64_t SendOpen(uint64_t bytes);
  uint64_t SendClose(uint64_t region);
  uint64_t SendAttend(const v1::AttendRegions& call);
  void SendCancel(uint64_t id);
  bool Send(const v1::AttendInRegionsRequest& message) { return stream_->Write(message); }

  // Reads until the answer to `id`, keeping what comes for others. Code UNKNOWN where the stream ended first.
  v1::AttendInRegionsResponse Await(uint64_t id);
  Code AwaitCode(uint64_t id) { return static_cast<Code>(Await(id).status().code()); }
  // REQUIRES: the server opens it.
  std::unique_ptr<MappedRegion> Open(uint64_t bytes);

  void HalfClose() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }
  // Reads to the end.
  grpc::Status Finish();

 private:
  v1::AttendInRegionsRequest Next();
  uint64_t SendNext(const v1::AttendInRegionsRequest& message);

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AttendInRegionsRequest, v1::AttendInRegionsResponse>> stream_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, v1::AttendInRegionsResponse> answers_;
  bool finished_ = false;
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_REGION_CLIENT_H_
