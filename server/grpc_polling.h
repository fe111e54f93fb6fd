// How gRPC's threads wait for messages.
//
// gRPC 1.51 has one thread at a time wait for all of the process's sockets in epoll_wait, and no setting that would
// have it do so awake. But it calls epoll_wait by its name, and a program that defines one is called itself: here one
// that does not sleep while readers are to stay awake (server/scheduler/awake_readers.h). A message of a lone caller is
// then read at once, not once a processor has been woken for it (docs/batching.md, "A lone caller's wake-ups").
#ifndef TESSERA_SERVER_GRPC_POLLING_H_
#define TESSERA_SERVER_GRPC_POLLING_H_

#include <sys/epoll.h>

namespace tessera {

// Fewer processors are better left to those who have something to do.
constexpr unsigned kLeastProcessorsToPoll = 8;

// As epoll_wait of the C library, but with ReadersStayAwake() it asks again and again instead of sleeping, for as long
// as that holds and `timeout_ms` allows; signals do not end it meanwhile. Whatever the number of processors.
int AwakeEpollWait(int epoll, epoll_event* events, int max_events, int timeout_ms);

}  // namespace tessera

#endif  // TESSERA_SERVER_GRPC_POLLING_H_
