// Calls whose tensors do not travel, to a server on the same host: they lie in memory that both have.
//
//   auto session = tessera::RegionSession::Connect("localhost:7171", {});
//   absl::StatusOr<tessera::Region> region = (*session)->OpenSharedMemory(bytes);
//   tessera::AttendCall call;                 // q, k, v, o and lse are spans of region->memory()
//   absl::StatusOr<tessera::AttendReply> reply = (*session)->Attend(call);
//
// The server must allow regions (its flags allow_shared_memory and allow_cuda_ipc). docs/regions.md has their rules.
#ifndef TESSERA_CLIENT_CPP_TESSERA_REGION_SESSION_H_
#define TESSERA_CLIENT_CPP_TESSERA_REGION_SESSION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cpp/tessera/attend_call.h"
#include "client/cpp/tessera/options.h"
#include "grpcpp/channel.h"

namespace tessera {

class RegionRpc;
class SharedMapping;

// Memory of a session's. Movable, not copyable. It outlives its session, but calls in it do not: where the session
// ends, they end with UNAVAILABLE.
class Region {
 public:
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  // Closes without waiting, if need be. REQUIRES: of shared memory, as of Close.
  ~Region();

  // Shared memory, zero at first; or what was given to OpenCudaMemory, on the GPU.
  absl::Span<std::byte> memory() const { return memory_; }

  // Ends the region, and waits until the server has let go of it. memory() is empty then. REQUIRES: of shared memory,
  // that nobody uses memory() any more; no call in it is open.
  absl::Status Close();

 private:
  friend class RegionSession;
  Region(std::weak_ptr<RegionRpc> stream, uint64_t id, absl::Span<std::byte> memory,
         std::unique_ptr<SharedMapping> mapping);

  // Withdraws memory(), and says what is to be asked of the server, if anything.
  std::shared_ptr<RegionRpc> Withdraw();

  std::weak_ptr<RegionRpc> stream_;
  uint64_t id_ = 0;  // 0 once closed, or moved from
  absl::Span<std::byte> memory_;
  std::unique_ptr<SharedMapping> mapping_;  // null of a GPU's memory
};

// Names an allocation of this process's on a GPU, for another process on the host.
struct CudaAllocation {
  // The start of the allocation, as cudaMalloc (or cuMemGetAddressRange) says it, and what to use of it.
  absl::Span<std::byte> memory;
  std::array<char, 64> handle;       // of cudaIpcGetMemHandle
  std::array<char, 16> device_uuid;  // of cudaGetDeviceProperties
};

// A connection and a stream of its own. Thread-safe. Calls cost no thread.
class RegionSession {
 public:
  // As Client::Connect. Of the options, credentials, tenant, keepalive and default_timeout count; opening and closing a
  // region end with DEADLINE_EXCEEDED where the server has not answered after that.
  static absl::StatusOr<std::unique_ptr<RegionSession>> Connect(const std::string& target,
                                                                const ClientOptions& options);
  RegionSession(const RegionSession&) = delete;
  RegionSession& operator=(const RegionSession&) = delete;
  // Ends the stream and waits until every callback has run. REQUIRES: not called from a callback.
  ~RegionSession();

  // Waits for the server. UNAVAILABLE where it cannot be reached, FAILED_PRECONDITION where it does not allow it or the
  // memory cannot be opened here (another host, container or user), PERMISSION_DENIED where it takes this for another
  // host, RESOURCE_EXHAUSTED where there is no room for it now.
  absl::StatusOr<Region> OpenSharedMemory(size_t bytes);

  // As above; NOT_FOUND where the server does not use that GPU, INVALID_ARGUMENT where the handle does not open. The
  // allocation stays until the region has been closed.
  absl::StatusOr<Region> OpenCudaMemory(const CudaAllocation& allocation);

  // As Client::AttendAsync; but the tensors lie in regions of this session, all in shared memory or all on one GPU,
  // each at a multiple of 16 bytes, and nothing is tried again. INVALID_ARGUMENT where they do not. What is on a GPU
  // must be ready when the call starts, whatever stream wrote it.
  //
  // `callback` runs when the server has let go of the tensors, or has gone away, or has not answered a second after the
  // call's timeout. Of a call that ends so, with DEADLINE_EXCEEDED, and of a session that ends with a call open nothing
  // can be known: the server may still write to the outputs for a while.
  CallHandle AttendAsync(const AttendCall& call, AttendCallback callback);
  // Waits for the answer.
  absl::StatusOr<AttendReply> Attend(const AttendCall& call);

 private:
  RegionSession(std::shared_ptr<grpc::Channel> channel, std::shared_ptr<RegionRpc> stream,
                absl::Duration default_timeout)
      : channel_(std::move(channel)), stream_(std::move(stream)), default_timeout_(default_timeout) {}

  const std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<RegionRpc> stream_;
  const absl::Duration default_timeout_;
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_REGION_SESSION_H_
