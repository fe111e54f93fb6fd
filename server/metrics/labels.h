// The closed label sets of the metrics: every value a label can take, known before the first request.
//
// Plain enums without Prometheus, so that the code which counts need not know how counts are exported.
#ifndef TESSERA_SERVER_METRICS_LABELS_H_
#define TESSERA_SERVER_METRICS_LABELS_H_

#include <array>
#include <cstddef>

namespace tessera {

// RPCs that are counted, in the order of kRpcMethodLabels.
enum class RpcMethod {
  kAttend,
  kAttendStream,
  kAttendInRegions,
  kCreateSequences,
  kExtend,
  kExtendStream,
  kForkSequence,
  kTruncateSequence,
  kReleaseSequences,
  kGetSequence,
  kGetServerInfo,
  kPlanTiles
};

struct RpcMethodLabels {
  const char* type;
  const char* service;
  const char* method;
};

inline constexpr std::array<RpcMethodLabels, 12> kRpcMethodLabels = {{
    {"unary", "tessera.v1.AttentionService", "Attend"},
    {"bidi_stream", "tessera.v1.AttentionService", "AttendStream"},
    {"bidi_stream", "tessera.v1.RegionService", "AttendInRegions"},
    {"unary", "tessera.v1.SequenceService", "CreateSequences"},
    {"unary", "tessera.v1.SequenceService", "Extend"},
    {"bidi_stream", "tessera.v1.SequenceService", "ExtendStream"},
    {"unary", "tessera.v1.SequenceService", "ForkSequence"},
    {"unary", "tessera.v1.SequenceService", "TruncateSequence"},
    {"unary", "tessera.v1.SequenceService", "ReleaseSequences"},
    {"unary", "tessera.v1.SequenceService", "GetSequence"},
    {"unary", "tessera.v1.ServerService", "GetServerInfo"},
    {"unary", "tessera.v1.ServerService", "PlanTiles"},
}};

// google.rpc.Code values 0 to 16, spelled as go-grpc-middleware spells them.
inline constexpr std::array<const char*, 17> kGrpcCodeLabels = {
    "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

// Where a call's time goes.
enum class Stage { kReceive, kQueue, kCopyIn, kCompute, kCopyOut, kSend };
inline constexpr std::array<const char*, 6> kStageLabels = {"receive", "queue",    "copy_in",
                                                            "compute", "copy_out", "send"};

// Where a call was when its deadline passed or its caller gave up.
enum class Station { kReceive, kQueue, kBatch, kRun, kSend };
inline constexpr std::array<const char*, 5> kStationLabels = {"receive", "queue", "batch", "run", "send"};

// Why a call, or a connection, was refused.
enum class RejectReason {
  kInvalid,          // malformed, or beyond a limit for good
  kByteBudget,       // bytes in flight
  kStaging,          // no free piece of staging memory
  kQueue,            // queue full in requests or bytes
  kStreamCalls,      // too many calls open on one stream
  kStripes,          // too many striped calls waiting for their streams
  kDeviceMemory,     // the device ran out of memory
  kKvPages,          // no page or no sequence left of the KV cache, or of the tenant's part of it
  kDraining,         // the server is stopping, or its device is lost
  kConnections,      // a connection, not a call: too many are open
  kFileDescriptors,  // likewise: the process has no file descriptor left
  kUnauthenticated,  // no token, or one that is not known
  kTenant,           // the token is another tenant's than the one that was named; or a region is for another host
  kRegions,          // a region, not a call: too many are open, or too much memory is shared
  kNotFound,         // no such sequence, or region, for this caller
  kConflict,         // another call is using the sequence
  kPrecondition,     // what this server does not do as it is set up
  kInternal,         // a defect, or a kernel that failed
  kToken,            // its stream's token is not valid any more
};
inline constexpr std::array<const char*, 19> kRejectReasonLabels = {
    "invalid",          "byte_budget",     "staging",  "queue",    "stream_calls",
    "stripes",          "device_memory",   "kv_pages", "draining", "connections",
    "file_descriptors", "unauthenticated", "tenant",   "regions",  "not_found",
    "conflict",         "precondition",    "internal", "token"};

// What is read anew from files when they change.
enum class CredentialKind { kCertificate, kTokens };
inline constexpr std::array<const char*, 2> kCredentialKindLabels = {"certificate", "tokens"};

// Where tensors lie that do not travel in messages.
enum class RegionMemory { kSharedMemory, kCudaMemory };
inline constexpr std::array<const char*, 2> kRegionMemoryLabels = {"shared_memory", "cuda_memory"};

// Element types, in the order of the kernels' DType.
inline constexpr std::array<const char*, 3> kDTypeLabels = {"float32", "float16", "bfloat16"};

}  // namespace tessera

#endif  // TESSERA_SERVER_METRICS_LABELS_H_
