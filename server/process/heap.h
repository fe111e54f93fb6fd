// How the process's heap grows and shrinks.
#ifndef TESSERA_SERVER_PROCESS_HEAP_H_
#define TESSERA_SERVER_PROCESS_HEAP_H_

namespace tessera {

// Settings of the C library's allocator that suit a server whose messages are large and whose threads are many. Nothing
// where the C library is not glibc. Call it first of all, before there are threads.
//
// gRPC receives every message into heap memory. By default each thread gets a heap of its own, up to eight a core, and
// each creeps towards the most that it has ever held: resident memory grows for hours. And each gives its free end back
// to the system every 128 KiB, which faults in again with the next message, page by page: a third of the time of large
// calls.
void SetUpHeap();

// Heaps that share all threads.
inline constexpr int kHeaps = 8;

}  // namespace tessera

#endif  // TESSERA_SERVER_PROCESS_HEAP_H_
