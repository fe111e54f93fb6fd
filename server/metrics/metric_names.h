// Every metric name that the server exports, and nothing else.
//
// Base units, `_total` for counters, `_info` for constant gauges; grpc_server_* follow go-grpc-middleware, process_*
// the Prometheus client libraries. docs/operations.md says what each one means.
#ifndef TESSERA_SERVER_METRICS_METRIC_NAMES_H_
#define TESSERA_SERVER_METRICS_METRIC_NAMES_H_

namespace tessera::metric_names {

inline constexpr char kGrpcStarted[] = "grpc_server_started_total";
inline constexpr char kGrpcHandled[] = "grpc_server_handled_total";
inline constexpr char kGrpcHandlingSeconds[] = "grpc_server_handling_seconds";

inline constexpr char kBuildInfo[] = "tessera_build_info";
inline constexpr char kDeviceInfo[] = "tessera_device_info";
inline constexpr char kDeviceUp[] = "tessera_device_up";

inline constexpr char kStageSeconds[] = "tessera_stage_seconds";
inline constexpr char kBatchRequests[] = "tessera_batch_requests";
inline constexpr char kBatchTokens[] = "tessera_batch_tokens";
inline constexpr char kBatches[] = "tessera_batches_total";

inline constexpr char kQueueRequests[] = "tessera_queue_requests";
inline constexpr char kQueueBytes[] = "tessera_queue_bytes";
inline constexpr char kTurnRequests[] = "tessera_turn_requests";
inline constexpr char kTurnBytes[] = "tessera_turn_bytes";
inline constexpr char kInflightBytes[] = "tessera_inflight_bytes";
inline constexpr char kCopiedBytes[] = "tessera_copied_bytes_total";

inline constexpr char kRegions[] = "tessera_regions";
inline constexpr char kRegionBytes[] = "tessera_region_bytes";
inline constexpr char kRegionPayloadBytes[] = "tessera_region_payload_bytes_total";

inline constexpr char kRejected[] = "tessera_rejected_total";
inline constexpr char kExpired[] = "tessera_expired_total";
inline constexpr char kCancelled[] = "tessera_cancelled_total";

inline constexpr char kCertificateExpiry[] = "tessera_tls_certificate_expiry_timestamp_seconds";
inline constexpr char kCredentialReloads[] = "tessera_credential_reloads_total";

inline constexpr char kDeviceMemoryBytes[] = "tessera_device_memory_bytes";
inline constexpr char kPinnedMemoryBytes[] = "tessera_pinned_memory_bytes";

inline constexpr char kKvPages[] = "tessera_kv_pages";
inline constexpr char kKvHostPages[] = "tessera_kv_host_pages";
inline constexpr char kKvMovedPages[] = "tessera_kv_moved_pages_total";
inline constexpr char kKvSequences[] = "tessera_kv_sequences";

inline constexpr char kFlops[] = "tessera_flops_total";
inline constexpr char kHbmBytes[] = "tessera_hbm_bytes_total";
inline constexpr char kTiles[] = "tessera_tiles_total";

inline constexpr char kProcessCpuSeconds[] = "process_cpu_seconds_total";
inline constexpr char kProcessResidentBytes[] = "process_resident_memory_bytes";
inline constexpr char kProcessVirtualBytes[] = "process_virtual_memory_bytes";
inline constexpr char kProcessOpenFds[] = "process_open_fds";
inline constexpr char kProcessMaxFds[] = "process_max_fds";
inline constexpr char kProcessThreads[] = "process_threads";
inline constexpr char kProcessStartTime[] = "process_start_time_seconds";

}  // namespace tessera::metric_names

#endif  // TESSERA_SERVER_METRICS_METRIC_NAMES_H_
