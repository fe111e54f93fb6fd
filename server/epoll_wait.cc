// The epoll_wait that gRPC calls: linked into a program, it comes before the C library's own.
#include <sys/epoll.h>

#include "server/grpc_polling.h"
#include "server/grpc_processors.h"

__attribute__((visibility("default"))) int epoll_wait(int epoll, epoll_event* events, int max_events, int timeout_ms) {
  static const bool may_stay_awake = tessera::UsableProcessors() >= tessera::kLeastProcessorsToPoll;
  return may_stay_awake ? tessera::AwakeEpollWait(epoll, events, max_events, timeout_ms)
                        : epoll_pwait(epoll, events, max_events, timeout_ms, nullptr);
}
