// What every Attend call works with.
#ifndef TESSERA_SERVER_RPC_ATTEND_ENVIRONMENT_H_
#define TESSERA_SERVER_RPC_ATTEND_ENVIRONMENT_H_

#include <cstdint>

#include "absl/time/time.h"
#include "server/clock/clock.h"
#include "server/credentials/token_table.h"
#include "server/request/attend_shape.h"
#include "server/rpc/admission.h"
#include "server/rpc/deadline_watch.h"
#include "server/rpc/rpc_observer.h"
#include "server/scheduler/scheduler_group.h"

namespace tessera {

struct AttendLimits {
  RequestLimits request;
  int64_t max_stream_calls = 256;  // open at once on one stream
  int64_t chunk_bytes = 1 << 20;   // payload of one message of a streamed answer
  // A stream whose unread answers reach this is not read from until its client has caught up.
  int64_t max_outbox_bytes = int64_t{64} << 20;
  int64_t max_striped_calls = 1024;                     // waiting for their streams
  absl::Duration stripe_timeout = absl::Seconds(10);    // from the first stream to the last
  absl::Duration assembly_timeout = absl::Seconds(30);  // from one chunk of a call to the next
  absl::Duration max_assembly_time = absl::Minutes(5);  // from a call's opening to its last chunk
  absl::Duration send_timeout = absl::Seconds(60);      // for gRPC to get rid of a message, its client reading or not
  // Of the byte budget and staging memory: what one tenant may hold, even where no other wants it, in (0, 1].
  double max_tenant_memory_share = 1;
};

// Everything outlives every RPC.
struct AttendEnvironment {
  AttendLimits limits;
  Clock* clock;
  Admission* admission;
  SchedulerGroup* scheduler;
  DeadlineWatch* deadlines;
  RpcObserver* observer;
  const Tokens* tokens = nullptr;  // null: callers name their tenant themselves
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_ATTEND_ENVIRONMENT_H_
